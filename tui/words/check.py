"""The output of `wmtop check` and `wmtop advise`: lines and tables. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.cells import cell_len

from ...engine.doctor import Diagnosis, accounts_for
from ...engine.doctor.lateness import LateCause
from ...engine.snapshot import FlinkJob
from ...engine.text import formatting as f
from ...engine.verdict.recommendation import Advice, IdleOutcome, LatenessOutcome
from .fail_if import CheckInput, Value, shown
from .verdict import WORDS, speed

BAD = ("slow", "stalled")


class CheckedFinding(Struct, frozen=True):
    """A finding as `--json` prints it; the first five names are contract."""

    code: str
    severity: str
    channels: list[str]
    cause: str
    fix: str
    title: str
    evidence: list[str]


class Checked(Struct, frozen=True):
    """The result for one target; `facts` are durations in ms, shares from 0 to 1, None where not known."""

    target: str
    verdict: str
    reason: str
    findings: list[CheckedFinding]
    facts: dict[str, Value]
    exit: int
    met: str | None = None
    """The comparisons that made `--fail-if` true, with their numbers."""
    not_known: str | None = None
    """The facts that `--fail-if` needs and this target lacks."""
    held_back_by: str | None = None


_REASONS = {
    "moving": "The watermark advances",
    "waiting": "No record has come lately, and nothing is unread",
    "ended": "The stream has ended",
    "slow": "Event time loses ground",
    "stalled": "The watermark does not advance",
    "unknown": "Too little is known for a verdict",
}


def reason_of(given: CheckInput, said: Sequence[Diagnosis]) -> str:
    """The verdict in a sentence: a bad one by the first finding (`said`) that accounts for it, any other by a critical
    finding, else by its numbers.
    """
    if given.verdict in (*BAD, "unknown"):
        pairs = zip(given.findings, said, strict=True)
        title = next((one.title for finding, one in pairs if accounts_for(finding, given.verdict)), None)
        if title is not None:
            return title
    if given.verdict != "ended" and said and said[0].severity == "critical":
        return said[0].title  # the watermark may advance because of a wrong timestamp
    if given.verdict == "ended" and given.snapshot.is_attached:
        job = given.snapshot.target
        return f"The job is {job.state}" if isinstance(job, FlinkJob) else "The query was stopped"
    level, verdict = given.snapshot.level, given.snapshot.verdict
    if given.verdict == "moving" and verdict.speed == 0:  # nothing is behind, or it has just stopped
        serious = (one.title for one in said if one.severity != "info")
        return next(serious, f"The watermark has not advanced in the last {f.duration(verdict.horizon_ms or 0)}")
    numbers: list[str] = []
    if verdict.speed is not None and given.verdict in ("moving", *BAD):
        numbers.append(f"speed ×{speed(verdict.speed)}")
    if level.behind_fastest_ms is not None and given.verdict != "ended":
        numbers.append(f"{f.duration(level.behind_fastest_ms)} behind the fastest channel")
    if level.behind_clock_ms is not None and given.verdict != "ended":
        numbers.append(f.behind_clock(level.behind_clock_ms))
    return "; ".join([_REASONS[given.verdict], ", ".join(numbers)] if numbers else [_REASONS[given.verdict]])


def lines(result: Checked) -> Iterator[str]:
    """A target in full: verdict, condition, findings."""
    yield f"{f.clean(result.target)}: {result.verdict.upper()}  {result.reason}"
    if result.met is not None:
        yield f"  true: {result.met}"
    if result.not_known is not None:
        yield f"  not known from this target: {result.not_known}"
    for finding in result.findings:
        yield f"  {finding.severity}: {finding.title}"
        yield f"    {finding.cause}"
        if finding.fix:
            yield f"    fix: {finding.fix}"


_COLUMNS = ("TARGET", "VERDICT", "LAG", "HELD BACK BY", "LATE", "BACKLOG", "REASON")


MIN_REASON = 40
"""Cells for a reason in the table, at least, however narrow the table is."""


def table(results: Sequence[Checked], width: int) -> list[str]:
    """All targets, a row each, the worst first, in `width` cells; `check TARGET` has the whole reason."""
    order = {"stalled": 0, "slow": 1, "unknown": 2, "waiting": 3, "moving": 4, "ended": 5}
    ranked = sorted(results, key=lambda one: ({1: 0, 3: 1}.get(one.exit, 2), order.get(one.verdict, 2)))
    rows = [_COLUMNS, *(_row(result) for result in ranked)]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(_COLUMNS) - 1)]
    left = max(width - sum(widths) - 2 * len(widths), MIN_REASON)
    return [
        "  ".join([*(_pad(text, cells) for text, cells in zip(row, widths, strict=False)), f.cut(row[-1], left)])
        for row in rows
    ]


def _row(result: Checked) -> tuple[str, ...]:
    facts = result.facts
    lag = facts["behind_fastest"] if facts["behind_fastest"] is not None else facts["level_lag"]
    held = f.UNKNOWN if result.held_back_by is None else f.clean(result.held_back_by)
    why = result.met or (result.reason if result.not_known is None else f"not known: {result.not_known}")
    word = next((word for name, word in WORDS.items() if name == result.verdict), result.verdict)
    cells = (shown(lag, "duration"), held, shown(facts["late_share"], "share"), shown(facts["backlog"], "count"))
    return (f.clean(result.target), word, *cells, why)


def _pad(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


LINE_NAMES = {
    "spark": "Spark",
    "flink_java": "Flink (Java)",
    "flink_sql": "Flink (SQL)",
    "kafka_streams": "Kafka Streams",
}


def advice_lines(advice: Advice) -> Iterator[str]:
    """The recommendation, its cost and its evidence; then the same for the idle timeout."""
    goal = f"{100 * advice.target:.10g} %"
    if advice.lateness is None:
        yield f"  lateness      no lateness keeps {goal} on time: even the greatest one has more late records"
    else:
        setting = f.setting(advice.lateness.lateness_ms)
        yield f"  lateness      {setting} keeps {goal} on time: {_cost(advice, advice.lateness)}"
    if advice.current is not None:
        yield f"  now           {f.setting(advice.current.lateness_ms)}: {_cost(advice, advice.current)}"
    yield f"  evidence      {_evidence(advice)}"
    if advice.idle is None and advice.current_idle is not None:
        yield "  idle timeout  no recommendation: no channel was idle with any timeout"
    if advice.idle is not None:
        yield f"  idle timeout  {f.setting(advice.idle.idle_after_ms)}: {_idle(advice.idle)}"
        if advice.current_idle is not None and advice.current_idle != advice.idle:
            yield f"  now           {f.setting(advice.current_idle.idle_after_ms)}: {_idle(advice.current_idle)}"


def cause_lines(cause: LateCause) -> Iterator[str]:
    """What most late records have in common."""
    column, value = f.clean(cause.column), f.clean(cause.value)
    about = "≈ " if cause.approximate else ""
    yield (
        f"  cause         {column} {value} is {f.share(cause.late_share)} of the late records and {about}"
        f"{f.share(cause.share)} of all ({cause.lift:.1f} times its share)"
    )
    for also, of, share in cause.also:
        yield f"                Also {f.clean(also)} {f.clean(of)}: {f.share(share)}"
    yield "                Fix what delays those records"


def _cost(advice: Advice, outcome: LatenessOutcome) -> str:
    bound = "≤ " if advice.upper_bound else ""
    late = f"{bound}{f.share(outcome.late_share)} late ({f.count(outcome.late)} records;"
    interval = f" 95 % interval {f.share(outcome.low)} to {f.share(outcome.high)})"
    return late + interval + _delay(outcome, advice.current)


def _delay(outcome: LatenessOutcome, now: LatenessOutcome | None) -> str:
    """How much later than now results come; if that is not known, or for the lateness in force, how long after the end
    of their window.

    For data that is days old (a backfill) the time since the end of a window says nothing.
    """
    if outcome.delay_ms is None:
        return ""
    if now is not None and now.delay_ms is not None and now.lateness_ms != outcome.lateness_ms:
        later = outcome.delay_ms - now.delay_ms
        return f", results {f.duration(abs(later))} {'later' if later >= 0 else 'earlier'} than now"
    return "" if outcome.delay_ms >= f.DAY else f", results {f.duration(outcome.delay_ms)} after their window's end"


def _evidence(advice: Advice) -> str:
    when = "since the start" if advice.horizon_ms is None else f"of the last {f.setting(advice.horizon_ms)}"
    few = "; few late records: watch longer before you rely on it" if advice.few else ""
    fine = "" if advice.bucket_ms is None else f"; counted in steps of {f.setting(advice.bucket_ms)}"
    return f"{f.count(advice.records)} records {when}{fine}{few}"


def _idle(outcome: IdleOutcome) -> str:
    gain = "" if not outcome.gain_ms else f", watermark {f.signed(outcome.gain_ms)}"
    changes = f"{f.count(outcome.flaps)} changes between idle and active"
    return f"{f.share(outcome.late_share)} late ({f.count(outcome.late)} records), {changes}{gain}"
