"""The output of `wmtop advise`. Pure."""

from collections.abc import Iterator

from ...engine.core.doctor.explained import LateCause
from ...engine.core.judgement.advice import Advice, IdleOutcome, LatenessOutcome
from . import formatting as f

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
