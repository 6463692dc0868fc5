"""Words that several screens share: names, causes, windows, the status, the watermark line, a query's name. Pure."""

from datetime import tzinfo

from msgspec import Struct

from ...engine.snapshot import Cause, ChannelView, FlinkJob, OwnRun, Snapshot, SparkQuery, WatermarkNode
from ...engine.text import formatting as f
from ...engine.text.causes import CauseWords
from ...engine.text.flink_load import busy_after, kept_back
from ...engine.text.formatting import name
from ...engine.verdict.verdict import moves_again
from ...engine.watermarks.settings import Session, Settings, Sliding
from .barrel import holding
from .kinds import kind_words
from .notes import note_text
from .progress import share_read
from .spans import Part, Span, part

_MAX_SIBLINGS = 8


def identity(snapshot: Snapshot) -> str | None:
    """What is attached to, as short as possible: the query's own name, else the end of its path."""
    source = snapshot.source
    match snapshot.target:
        case OwnRun():
            return None
        case FlinkJob() as job:
            return f"job {job.id[:8]}" if job.name == snapshot.name else f"job {job.name} {job.id[:8]}"
        case SparkQuery(spark=spark) if spark.query_name is not None and spark.query_name != snapshot.name:
            return f"query {spark.query_name}"
        case _ if source is not None and "/" in source.description:
            return "/".join(source.description.split("/")[-2:])
        case _:
            return None


def whole_identity(snapshot: Snapshot) -> str:
    """All that identifies the query: its name, its id, and what was attached to."""
    spark, source = snapshot.spark, snapshot.source
    if isinstance(job := snapshot.target, FlinkJob):
        return f"job {f.clean(job.name)}, id {f.clean(job.id)}, {f.clean(job.state)}"
    reported = [] if spark.query_name is None else [f"query {f.clean(spark.query_name)}"]
    reported += [] if spark.query_id is None else [f"id {f.clean(spark.query_id)}"]
    reported += [] if source is None else [f"{source.kind} {f.clean(source.description)}"]
    return ", ".join(reported)


def output_words(snapshot: Snapshot) -> str | None:
    """The output mode, and what it means for the windows; None: not known."""
    mode, kept = snapshot.spark.output_mode, snapshot.windows.kept
    windowed = any(one.windowed for one in snapshot.spark.operators or ())
    if mode == "complete":
        ended = "" if kept is None or not windowed else f"; {f.count(kept)} ended windows stay in state"
        return f"complete mode: every batch emits all {'windows' if windowed else 'results'}{ended}"
    if mode == "update" and windowed:
        ended = "" if not kept else f"; {f.count(kept)} ended windows stay in state"
        return f"update mode: a batch emits the windows it changed{ended}"
    if mode is None or not windowed:
        return None if mode is None else f"{mode} mode"
    return "append mode: a window is emitted once, when the watermark passes its end"


def unclosed_words(snapshot: Snapshot) -> str | None:
    """What happens to windows that the watermark does not close; None: not known, or not the same for all operators."""
    if snapshot.spark.output_mode == "complete":
        return "emitted by every batch"
    windowed = [one for one in snapshot.spark.operators or () if one.windowed]
    return "never removed" if windowed and all(one.evicts is False for one in windowed) else None


def node_lines(snapshot: Snapshot) -> list[str]:
    """If there are several watermarks, each with its delay and its effect on the query's, a line each."""
    nodes = snapshot.spark.nodes or []
    return [_node_line(snapshot, node) for node in nodes] if len(nodes) > 1 else []


def _node_line(snapshot: Snapshot, node: WatermarkNode) -> str:
    at = f.ELSEWHERE if node.reached_ms is None else f.stamp(node.reached_ms, None)
    if node.watermark_ms is None and node.at_least_ms is not None:
        at = f"at least {at}"
    words = {
        "no_input": "stuck at 1970, its input has no records",
        "own_output": "stuck at 1970, it waits for the query's own output",
        None: at + (", sets the watermark of the query" if node.holds else ""),
    }[node.pinned]
    feeds = [f.clean(snapshot.sources[place].description) for place in node.sources or () if snapshot.sources]
    source = f" from {feeds[0]}" if len(feeds) == 1 else ""
    column, delay = f.clean(node.column or "an unknown column"), delay_words(node.delay_ms)
    return f"watermark on {column}{source}, delay {delay}: {words}"


def sibling_lines(snapshot: Snapshot) -> list[str]:
    """The other queries of the application: the failed and the running ones a line each, then how many others."""
    shown = [one for one in snapshot.siblings or () if one.state != "stopped"][:_MAX_SIBLINGS]
    lines = [
        f"query {f.clean(one.name)}: {one.state}" + ("" if one.error is None else f": {f.clean(one.error)}")
        for one in shown
    ]
    rest = len(snapshot.siblings or ()) - len(shown)
    return [*lines, f"{f.count(rest)} other quer{'y' if rest == 1 else 'ies'} of the application"] if rest else lines


def without_watermark(snapshot: Snapshot) -> str:
    """Why a Spark query has no watermark, as far as that is known."""
    has = snapshot.spark.has_watermark
    if has is False:
        return "this query has no watermark"
    stuck = next((note for note in snapshot.notes if note.code in ("watermark_pinned", "watermark_unmoved")), None)
    if stuck is not None:
        return note_text(stuck)
    return "the watermark has not moved yet" if has else "it has no watermark, or it has not moved yet"


def delay_words(ms: int | None) -> str:
    """A delay; `–` where it is not known."""
    return f.UNKNOWN if ms is None else f.setting(ms)


class Condition(Struct, frozen=True):
    """The word for the state, its ink, and a line on it."""

    word: str
    ink: str
    note: str | None = None


_BRIEF = 6
"""A pause is brief up to this part of the verdict's horizon."""
_IN_FLIGHT_MS = 2_000
"""A batch that runs for less (ms) is not mentioned."""


def status_parts(snapshot: Snapshot, now: Condition, zone: tzinfo | None) -> list[Part]:
    """Name, state, batch, rates, clock and speed."""
    spark, source = snapshot.spark, snapshot.source
    parts = [
        part((" ", "text")),
        part(("wmtop  ", "accent"), rank=4, gap=""),
        part((name(snapshot.name), "strong"), gap=""),
        part(("● ", now.ink), (now.word, now.ink), gap="  "),
    ]
    if (whose := identity(snapshot)) is not None:
        parts.append(part((f.label(whose, 40), "dim"), rank=6, gap="  "))
    if snapshot.batch is not None:
        parts.append(part((f"batch {snapshot.batch:,}", "text"), rank=3, gap="  "))
    if (running := in_flight(snapshot)) is not None:
        parts.append(part((running, "text"), rank=3, gap=", "))
    if spark.batch_ms is not None:
        parts.append(part((f"{spark.batch_ms / 1000:.2f} s", "text"), rank=5, gap=" · "))
    if spark.input_rows_per_second is not None:
        parts.append(part((f"{f.rate(spark.input_rows_per_second)} rows/s", "text"), rank=2, gap=" · "))
    if (read := share_read(snapshot)) is not None:
        parts.append(part((read, "text"), rank=6, gap=" · "))
    if snapshot.now_ms is not None:
        parts.append(part((f.stamp(snapshot.now_ms, zone), "text"), rank=1, right=True))
    if source and source.speed is not None:
        parts.append(part((f"×{source.speed:g}", "dim"), rank=3, right=True, gap="  "))
    parts.append(part((" ", "text"), right=True, gap=""))
    return parts


def no_watermark(snapshot: Snapshot) -> str:
    """Why there is no watermark; rows are mentioned only if the query reports them."""
    spark = snapshot.spark
    if spark.has_watermark is False or spark.never_moved:
        return "none: this query has no withWatermark" if spark.has_watermark is False else "still at 1970"
    return f.NO_DATA


def watermark_parts(snapshot: Snapshot, zone: tzinfo | None) -> list[Part]:
    """The watermark and how far it is behind."""
    level = snapshot.level
    label: Span = (" WATERMARK ", "title")
    if level.watermark_ms is None:
        return [part(label, ("ended" if snapshot.ended else no_watermark(snapshot), "level"))]
    time = f.clock(level.watermark_ms, zone, snapshot.now_ms)
    if snapshot.ended:
        last = part((f"all windows closed; the last watermark was {time}", "dim"), rank=1)
        return [part(label, ("ended", "level")), last]
    parts = [part(label, (time, "level"))]
    if level.behind_fastest_ms is not None:
        text = f.duration(level.behind_fastest_ms)
        parts.append(part((text, "strong"), (" behind fastest", "dim"), rank=2))
    if level.behind_clock_ms is not None:
        text = f.duration(abs(level.behind_clock_ms))
        side = " behind clock" if level.behind_clock_ms >= 0 else " ahead of clock"
        parts.append(part((text, "strong"), (side, "dim"), rank=3, gap=" · " if parts[1:] else "   "))
    if (ago := moved(snapshot)) is not None:
        parts.append(part(("moved ", "dim"), (ago, "strong"), rank=4, gap=" · "))
    return parts


def late_drops(snapshot: Snapshot) -> str:
    """Number of records dropped as late, `≥ 17` for a lower bound; for a Spark query: rows."""
    late, dropped = snapshot.totals.late, snapshot.spark.dropped_at_least
    if late is None:
        reported = dropped or snapshot.spark.batch_ms is not None  # the first report is that of the first batch
        return f.at_least(dropped) if dropped is not None and reported else f.ELSEWHERE
    is_bound = any(task.late_at_least for task in snapshot.job.vertices)
    return f"≥ {f.count(late)}" if is_bound else f.count(late)


def in_flight(snapshot: Snapshot) -> str | None:
    """How long the last batch has been running, if that is long enough to mention."""
    begun = snapshot.spark.batch_timestamp_ms
    if not snapshot.spark.in_flight or begun is None or snapshot.now_ms is None:
        return None
    if snapshot.state in ("failed", "ended"):
        return None
    age_ms = snapshot.now_ms - begun
    word = "unfinished for" if snapshot.state == "stale" else "in flight"
    return None if age_ms < _IN_FLIGHT_MS else f"{word} {f.duration(age_ms)}"


def moved(snapshot: Snapshot) -> str | None:
    """How long ago the watermark moved."""
    since = snapshot.level.moved_ms
    if since is None or snapshot.now_ms is None:
        return None
    age_ms = snapshot.now_ms - since
    return "just now" if age_ms < f.SECOND else f"{f.duration(age_ms)} ago"


def is_close(snapshot: Snapshot) -> bool:
    """Whether the slowest channel has data and is behind the fastest by no more than the lateness: no blame.

    Also if it is not known whether event time moves: an old snapshot does not prove a lag.
    """
    level, lateness_ms = snapshot.level, snapshot.settings.lateness_ms
    return (
        (snapshot.verdict.verdict in ("moving", "unknown") or moves_again(snapshot))
        and level.holder is not None
        and (level.holder.cause == "behind" or (level.holder.cause == "quiet" and _paused_briefly(snapshot)))
        and level.behind_fastest_ms is not None
        and level.behind_fastest_ms <= (lateness_ms or 0)
    )


def ahead_elsewhere(snapshot: Snapshot) -> bool:
    """Whether the slowest channel is on time, and the fastest ahead of the clock."""
    holder = snapshot.level.holder
    return holder is not None and holder.cause == "future_elsewhere"


def _paused_briefly(snapshot: Snapshot) -> bool:
    """Whether the holder's pause is a small part of the verdict's horizon, as between two batches."""
    held, horizon_ms = holding(snapshot), snapshot.verdict.horizon_ms
    view = next((view for view in snapshot.channels if view.channel == held), None)
    if view is None or view.quiet_ms is None or horizon_ms is None:
        return False
    return _BRIEF * view.quiet_ms <= horizon_ms


def words_of(cause: Cause, snapshot: Snapshot) -> CauseWords:
    """The words for a cause, for this kind of target."""
    return kind_words(snapshot).causes[cause]


def cause(snapshot: Snapshot) -> str:
    """Why the holder holds back the watermark, in words with numbers."""
    holder, level = snapshot.level.holder, snapshot.level
    if holder is None:
        return ""
    behind = None if level.behind_fastest_ms is None else f.duration(level.behind_fastest_ms)
    if holder.cause == "behind" and behind is not None and is_close(snapshot):
        return f"{behind} behind in event time, as lateness allows"
    if holder.cause == "behind" and (raised := raised_words(snapshot)) is not None:
        return raised
    held = holding(snapshot)
    view = next((view for view in snapshot.channels if view.channel == held), None)
    return words_of(holder.cause, snapshot).sentence.format(
        quiet=f" for {f.duration(view.quiet_ms)}" if view and view.quiet_ms is not None else "",
        all_read=", no backlog" if _all_read(snapshot, view) else "",
        backlog=f" of {f.counted(view.backlog, 'record')}" if view and view.backlog is not None else "",
        lag=f", {f.duration(view.behind_end_ms)} of event time" if view and view.behind_end_ms is not None else "",
        behind=behind or "far",
        fastest=_fastest(snapshot) if holder.cause == "future_elsewhere" else "",
        busy_after=busy_after(snapshot),
        stuck=_stuck(snapshot, view),
        kept_back=kept_back(snapshot),
    )


def held_for(snapshot: Snapshot) -> str:
    """` for 38s`, ` for ≥ 38s`: how long the channel has held back the watermark; empty if that is not known."""
    holder = snapshot.level.holder
    if holder is None or snapshot.now_ms is None:
        return ""
    least = "≥ " if holder.at_least else ""
    return f" for {least}{f.duration(max(snapshot.now_ms - holder.since_ms, 0))}"


def raised_words(snapshot: Snapshot) -> str | None:
    """For how long the watermark is frozen because lateness was raised; None: another reason.

    The slowest channel's event time has to catch up with the watermark that it sent before; no channel is to blame.
    """
    settings, level, holder = snapshot.settings, snapshot.level, snapshot.level.holder
    held = None if holder is None or holder.cause != "behind" else holding(snapshot)
    view = next((view for view in snapshot.channels if view.channel == held), None)
    if view is None or view.watermark_ms is None or view.max_event_ms is None or settings.lateness_ms is None:
        return None
    left_ms = view.watermark_ms - (view.max_event_ms - settings.lateness_ms - 1)
    if settings.strategy not in ("bounded", "bounded-legacy") or left_ms <= 1:
        return None
    if (level.behind_fastest_ms or 0) > left_ms + settings.lateness_ms:
        return None  # it is much further behind than that
    return f"lateness was raised; frozen for another {f.duration(left_ms)} of event time"


def _stuck(snapshot: Snapshot, view: ChannelView | None) -> str:
    """How long the channel's watermark has not moved, if that was seen."""
    if view is None or view.since_ms is None or snapshot.now_ms is None:
        return "does not move"
    return f"has not moved for {f.duration(max(snapshot.now_ms - view.since_ms, 0))}"


def _all_read(snapshot: Snapshot, view: ChannelView | None) -> bool:
    """Whether the channel is known to have no backlog: a replay's unread records have not arrived yet."""
    if isinstance(snapshot.target, FlinkJob):
        return False  # its REST API does not show what is unread
    if snapshot.source is not None and snapshot.source.kind in ("kafka", "topic", "group"):
        return view is not None and view.backlog == 0
    return True


def _fastest(snapshot: Snapshot) -> str:
    known = [view for view in snapshot.channels if view.watermark_ms is not None]
    return name(max(known, key=lambda view: view.watermark_ms or 0).channel) if known else "another channel"


def window(settings: Settings) -> str:
    """The windows in words: `1h`, `1h every 15m`, `session 30m`; `not known from here` if unknown."""
    spec = settings.window
    if spec is None:
        return f.ELSEWHERE
    if isinstance(spec, Session):
        return f"session {f.setting(spec.gap_ms)}"
    every = f" every {f.setting(spec.slide_ms)}" if isinstance(spec, Sliding) else ""
    return f.setting(spec.size_ms) + every
