"""What `wmtop check` finds and prints: lines, and a table of all targets. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct
from rich.cells import cell_len

from ...engine.doctor import Diagnosis, accounts_for
from ...engine.snapshot import FlinkJob, VerdictName
from ...engine.text import formatting as f
from .fail_if import CheckInput, Value, shown
from .verdict import WORDS, WORST, age_words, lost_an_hour, usually

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
    verdict: VerdictName
    reason: str
    findings: list[CheckedFinding]
    facts: dict[str, Value]
    exit: int
    met: str | None = None
    """The comparisons that made `--fail-if` true, with their numbers."""
    not_known: str | None = None
    """The facts that `--fail-if` needs and this target lacks."""
    not_met: str | None = None
    """The comparisons that made `--fail-if` false, with their numbers."""
    at_least: list[str] = []
    """The names of the facts that are lower bounds."""
    held_back_by: str | None = None
    read: str = ""
    """What the name led to: `recording, ends 2013-02-08 14:02:00 UTC`."""


_REASONS = {
    "moving": "The watermark advances",
    "waiting": "No record has come lately, and nothing is unread",
    "ended": "The stream has ended",
    "slow": "The watermark falls behind",
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
    numbers: list[str] = []
    if given.verdict == "slow":
        numbers.append(f"by {f.duration(lost_an_hour(verdict))} an hour")
    elif given.verdict in ("stalled", "waiting") and (age := age_words(verdict)) is not None:
        numbers.append(f"for {age}{'' if (usual := usually(verdict)) is None else f' ({usual})'}")
    if level.behind_fastest_ms is not None and given.verdict != "ended":
        numbers.append(f"{f.duration(level.behind_fastest_ms)} behind the fastest channel")
    if level.behind_clock_ms is not None and given.verdict != "ended":
        numbers.append(f.behind_clock(level.behind_clock_ms))
    return "; ".join(text for text in (_REASONS[given.verdict], ", ".join(numbers)) if text)


def lines(result: Checked) -> Iterator[str]:
    """A target in full: verdict, condition, findings."""
    read = f"  ({f.clean(result.read)})" if result.read else ""
    yield f"{f.clean(result.target)}: {result.verdict.upper()}  {result.reason}{read}"
    if result.met is not None:
        yield f"  true: {result.met}"
    if result.not_met is not None:
        yield f"  false: {result.not_met}"
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
    ranked = sorted(results, key=lambda one: ({1: 0, 3: 1}.get(one.exit, 2), WORST.index(one.verdict)))
    rows = [_COLUMNS, *(_row(result) for result in ranked)]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(_COLUMNS) - 1)]
    left = max(width - sum(widths) - 2 * len(widths), MIN_REASON)
    return [
        "  ".join([*(f.pad(text, cells) for text, cells in zip(row, widths, strict=False)), f.cut(row[-1], left)])
        for row in rows
    ]


def _row(result: Checked) -> tuple[str, ...]:
    facts = result.facts
    lag = facts["behind_fastest"] if facts["behind_fastest"] is not None else facts["level_lag"]
    held = f.UNKNOWN if result.held_back_by is None else f.clean(result.held_back_by)
    why = result.met or (result.reason if result.not_known is None else f"not known: {result.not_known}")
    cells = (shown(lag, "duration"), held, shown(facts["late_share"], "share"), shown(facts["backlog"], "count"))
    return (f.clean(result.target), WORDS[result.verdict], *cells, why)
