"""Fixes in words: an imperative with the value, and the command, key or line of the job for it. Pure."""

from ....engine.doctor import Finding, Fix, FixCode
from ....engine.snapshot import FlinkJob
from ....engine.text import formatting as f
from ....engine.verdict.job_line import line_in_job
from ..lateness import horizon_words
from ..preview import ProposedSetting, now_gain_ms
from .explanation import Context, names

_PLAIN: dict[FixCode, str] = {
    "add-idle-timeout": "Set an idle timeout a little longer than the channels' usual pause",
    "lengthen-idle-timeout": "Set an idle timeout longer than the channels' usual pause",
    "shorten-idle-timeout": "Set a shorter idle timeout, a little longer than the usual pause",
    "lengthen-lateness": "Set a longer lateness (watermark delay)",
    "use-strategy-with-lateness": "Use a strategy with lateness (--strategy bounded --lateness D)",
    "set-future-guard": "Set a future guard: --future-guard 5m counts such records and sets them aside",
    "filter-future-records": (
        "Filter records with future timestamps in the job before it assigns watermarks, and start it without its "
        "state: the watermark never goes back"
    ),
    "drop-future-rows": (
        "Drop such rows before withWatermark, and start the query with a new checkpoint: in this one the watermark "
        "never goes back"
    ),
    "set-time-column": "Name the column that holds the event time, and its unit (--time, --time-unit)",
    "convert-to-utc": "Convert the times to UTC where they are written, or write them with an offset (+02:00)",
    "correct-clock": "Set that producer's clock (NTP), or correct its times before they are read",
    "fix-cause": "Fix what delays those records, or set a lateness that covers them",
    "set-max-drift": "Read partitions in balance (--max-drift D): fast ones wait, and the state stays small",
    "send-heartbeats": "Let producers send a heartbeat record while they have no data",
    "check-producers": "Check the producers: none of them sends data",
    "add-readers": "Add readers, or make the sink faster: the records are there, but they are not read in time",
    "add-capacity": "Add cores, or do less work for each record",
    "lengthen-trigger": "Set a trigger interval that is not shorter than a batch",
    "free-watermark": "Free the watermark: the main screen shows which channel holds it back, and why",
    "add-watermark": "Call withWatermark before the first stateful operator",
    "split-query": "Or give the slow channels a query of their own",
    "feed-input": "Send a record to the input without data, for example a heartbeat",
    "use-max-policy": "Or set spark.sql.streaming.multipleWatermarkPolicy=max, if that input may lose late rows",
    "fill-event-time": (
        "Check the column given to withWatermark: its format, its type, and the rows in which it is null"
    ),
    "event-time-after-1970": "Use event times after 1970: Spark's watermark cannot be earlier",
    "shorten-delay": "Set a shorter delay in withWatermark",
    "remove-upper-watermark": (
        "Remove the second withWatermark: group the first result by window(window_time(window), ...), which keeps "
        "the first watermark"
    ),
    "watermark-the-source": "Call withWatermark on the source's event-time column, before the aggregation",
    "keep-event-time": (
        "Use the column of withWatermark itself in the window or key; do not overwrite it or derive another after it"
    ),
    "key-with-window": "Group by a window of the event time as well, or remove old keys yourself (transformWithState)",
    "dedup-with-time": "Add the event-time column to dropDuplicates, or use dropDuplicatesWithinWatermark",
    "check-input": (
        "Check that input: does its source still deliver, and how old are its event times? One newer record moves it"
    ),
    "bound-join": "Add a bound on event time to the join condition (right BETWEEN left AND left + interval 1 hour)",
    "tap-events": "To see its event time, put a tap (one line) on its input",
    "tap-input": "Count how late the rows are: put a tap (one line) before withWatermark",
    "check-query": "Check the query: is its process running, and what does its log say?",
    "check-job": "Look at the job's exceptions in Flink's web UI, and at the JobManager's log",
    "check-jobmanager": (
        "Check that the JobManager runs, and that its REST address answers from this machine; then look at its log"
    ),
    "check-task-managers": "Check in Flink's web UI that the job's task managers are connected, and look at their logs",
    "submit-job": "Submit the job again: wmtop follows it by its name; or attach to the job that replaced it",
    "fetch-metrics": "Set metrics.fetcher.update-interval: 10 s in the JobManager's configuration",
    "check-source": "Check the source: can it be reached, with which credentials?",
    "lower-max-channels": "Start the engine again with a smaller --max-channels",
    "resume-source": "Resume the source when it may be read again",
    "see-blockers": "See which channels hold back the watermark (Blockers, key b)",
    "see-progress": "See where the time of a batch goes (Progress, key g)",
    "see-late-records": "See when late records come and how late they are (Lateness, key l)",
    "see-operators": "See where the watermark gets lost (Operators, key o)",
    "check-operator": (
        "Look at what that operator waits for: an async call without an answer (set a timeout), or its own watermark"
    ),
    "collect-late-records": "Collect late records in a side output (sideOutputLateData): it shows how late they are",
    "set-watermark-strategy": ("Give the source a watermark strategy and a timestamp assigner (in SQL: WATERMARK FOR)"),
    "check-event-time": (
        "Look at the timestamps of new records, and at the timestamp assigner (in SQL: the column of WATERMARK FOR)"
    ),
    "attach-reports": "Attach to the job's event log, or call publish(spark) in the job: both show event times",
    "wait": "Wait: this needs more time or data",
}
_IDLE_KEYS: dict[FixCode, str] = {"add-idle-timeout": "]", "lengthen-idle-timeout": "]", "shorten-idle-timeout": "["}
"""The keys that preview these fixes where the idle timeouts to choose from are known."""
_EXAMPLE_MS = 60_000
_LONG = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_FASTER = {
    "offsets_ms": "Make listing the source faster: fewer files or partitions, or a broker that is closer",
    "planning_ms": "Simplify the plan: fewer unions, fewer columns",
    "work_ms": "Add cores or shuffle partitions, or do less work for each record",
    "commit_ms": "Use a faster checkpoint directory: local disk instead of an object store",
}


def fix_words(fix: Fix, finding: Finding, context: Context) -> str:
    """One fix as an imperative."""
    if fix.previewable:
        return _setting(fix, context)
    if fix.code == "set-time-unit":
        unit = fix.unit or "ms"
        own = not context.snapshot.is_attached
        return f"Set --time-unit {unit}" if own else f"Convert the {_LONG[unit]} before withWatermark"
    if fix.code == "speed-up-batches":
        return _FASTER.get(getattr(finding, "phase", None) or "", _PLAIN["add-capacity"])
    if fix.code == "check-event-time" and not isinstance(context.snapshot.target, FlinkJob):
        return "Look at the timestamps of new records, and at the column given to withWatermark"
    if fix.code == "check-channels":
        return f"Find out why {names(finding.channels)} {_falls(finding)}: producer, network, an unused partition?"
    if fix.code == "check-record":
        where = names(finding.channels) if finding.channels else "the source"
        return f"Look at that record, and correct what writes to {where}"
    if fix.code == "check-engine":
        log = context.snapshot.log
        return "Read the engine's log" + (f" ({f.clean(log)})" if log else "") + ", then start it again (wmtop run)"
    if fix.code == "add-idle-timeout" and (line := line_in_job(context.snapshot, _EXAMPLE_MS, idle=True)) is not None:
        return f"Set an idle timeout a little longer than the channels' usual pause in the job, for example {line}"
    if fix.code == "lengthen-lateness" and context.snapshot.is_attached:
        if fix.value_ms is not None and (line := line_in_job(context.snapshot, fix.value_ms)) is not None:
            return f"Set a longer delay in the job: {line}"
        line = line_in_job(context.snapshot, 2 * (context.snapshot.settings.lateness_ms or 0) or 10_000)
        return f"Set a longer delay in the job, for example {line}" if line else _PLAIN[fix.code]
    if fix.code in _IDLE_KEYS:
        key = f"key {_IDLE_KEYS[fix.code]}, " if context.snapshot.whatif_idle else ""
        return f"{_PLAIN[fix.code]} ({key}--idle-after)"
    return _PLAIN[fix.code]


def _falls(finding: Finding) -> str:
    one = len(finding.channels) == 1
    if finding.code == "lagging-channels":
        return f"{'is' if one else 'are'} behind"
    return f"{'has' if one else 'have'} no data" if finding.code == "silent-channels" else "fell behind"


def _setting(fix: Fix, context: Context) -> str:
    idle = fix.code == "set-idle-timeout"
    if idle and fix.value_ms is None:
        what = "Switch the idle timeout off"
    else:
        what = f"Set {'an idle timeout' if idle else 'lateness'} of {f.setting(fix.value_ms)}"
    line = line_in_job(context.snapshot, fix.value_ms, idle=idle)
    how = f" in the job: {line}" if line is not None else ""
    effects = "; ".join(_effects(fix, context))
    return what + how + (f" ({effects})" if effects else "")


def _effects(fix: Fix, context: Context) -> list[str]:
    out: list[str] = []
    if fix.gain_ms:
        out.append(_gain(fix, fix.gain_ms, context))
    if fix.more_late:
        out.append(f"{f.count(abs(fix.more_late))} {'more' if fix.more_late > 0 else 'fewer'} late records so far")
    if fix.late_share is not None:
        when = "so far" if fix.horizon_ms is None else f"in the {horizon_words(fix.horizon_ms)}"
        out.append(f"{f.share(fix.late_share)} late {when}")
    if fix.later_ms is not None and round(fix.later_ms):
        out.append(f"results {f.duration(round(abs(fix.later_ms)))} {'later' if fix.later_ms > 0 else 'sooner'}")
    return out


def _gain(fix: Fix, gain_ms: int, context: Context) -> str:
    """How much the watermark gains: at the next emit, and, where that differs, with the setting from the start."""
    proposed = wish_of(fix)
    now_ms = None if proposed is None else now_gain_ms(context.snapshot, proposed)
    if gain_ms > 0 and now_ms is not None and now_ms != gain_ms:
        at_once = f"gains {f.duration(now_ms)}" if now_ms else "gains nothing"
        return f"the watermark {at_once} at once ({f.duration(gain_ms)} if set from the start)"
    return f"the watermark {'gains' if gain_ms > 0 else 'falls back'} {f.duration(abs(gain_ms))}"


def wish_of(fix: Fix) -> ProposedSetting | None:
    """The setting that a screen can preview."""
    if not fix.previewable or (fix.code == "set-lateness" and fix.value_ms is None):
        return None
    return ProposedSetting(fix.code == "set-idle-timeout", fix.value_ms)
