"""The watermark in words: where it is, what holds it back and why, and what differs by the kind of target. Pure."""

from collections.abc import Iterator, Mapping
from datetime import tzinfo
from typing import Literal

from msgspec import Struct, field

from ...engine.snapshot import (
    STATE_SCHEMA,
    Cause,
    Chain,
    Clock,
    FlinkJob,
    KafkaStreams,
    Other,
    OtherFact,
    OwnRun,
    Snapshot,
    SparkQuery,
    TargetPart,
)
from ...engine.text import formatting as f
from ...engine.text.codes import CAUSES, FLINK_CAUSES, CauseWords, busy_after, kept_back
from ...engine.text.formatting import name
from ...engine.verdict.blame import fastest_view, holding_view, is_close
from ...engine.watermarks.settings import Session, Settings, Sliding
from .notes import note_text
from .spans import Part, Span, part

ChannelFacts = Literal["counted", "queued", "unread", "one clock", "stream time"]
"""What is known about the channels. `counted`: their records; `queued`: also their backlog; `unread`: only their
backlog; `one clock`: only their event times; `stream time`: that of a Kafka Streams application, and their backlog.
"""


class KindWords(Struct, frozen=True, kw_only=True):
    """The words and abilities of one kind of target; the defaults are those of an attached one."""

    counts_late: bool = False
    """Whether each record is known to be late or on time."""
    reports_drops: bool = False
    """Whether it always reports what it dropped as late."""
    late_name: str = "dropped as late"
    shows_settings: bool = True
    previews_any_value: bool = False
    """Whether keys choose values without a what-if, since a line for the job can be given."""
    expects_channels: bool = False
    """Whether channels come with the first record; else perhaps only the query's watermark is known."""
    causes: Mapping[Cause, CauseWords] = field(default_factory=lambda: CAUSES)
    """The words for what holds back the watermark."""
    paused_by: str = "--max-drift"
    without_timeout: str = "a record, or an idle timeout (none is set)"
    has_watermark: bool = True
    """Whether there is a watermark of the whole target, with which channels are compared; else each has its own."""
    time_name: str = "watermark"
    """What a channel's time is called."""
    charts_batches: bool = True
    """Whether its progress is that of batches."""
    not_explained: str = (
        "Which values late records have is known of runs with --explain COL,… only; replay the data in one"
    )


_ATTACHED = KindWords()
_KINDS: dict[type[TargetPart], KindWords] = {
    OwnRun: KindWords(
        counts_late=True,
        late_name="late records",
        expects_channels=True,
        not_explained="Start the engine with --explain COL,… (up to ten columns) to see which values late records have",
    ),
    FlinkJob: KindWords(
        shows_settings=False,
        reports_drops=True,
        previews_any_value=True,
        expects_channels=True,
        causes=FLINK_CAUSES,
        paused_by="watermark alignment",
        without_timeout="a record, or an idle timeout in the job",
        charts_batches=False,
    ),
    KafkaStreams: KindWords(
        shows_settings=False,
        expects_channels=True,
        has_watermark=False,
        time_name="stream time",
        charts_batches=False,
        not_explained="Late records are not in the commits of a Kafka Streams application",
    ),
    Chain: KindWords(shows_settings=False, charts_batches=False, time_name="event time"),
}


def kind_words(snapshot: Snapshot) -> KindWords:
    """The words of the snapshot's kind of target."""
    return _KINDS.get(type(snapshot.target), _ATTACHED)


def channels_known(snapshot: Snapshot) -> bool:
    """Whether channels are known, or will be with the first record; else only the query's watermark is."""
    return bool(snapshot.channels) or kind_words(snapshot).expects_channels


def channel_facts(snapshot: Snapshot) -> ChannelFacts:
    """What is known about the channels."""
    match snapshot.target:
        case OwnRun():
            return "queued" if snapshot.source is not None and snapshot.source.kind == "kafka" else "counted"
        case KafkaStreams():
            return "stream time"
        case SparkQuery(barrel=barrel) if barrel is not None:
            return "one clock"
        case _:
            return "unread"


def end_words(snapshot: Snapshot) -> str:
    """What the end means: a run of our own fires all that is open; an attached query that was stopped keeps it."""
    match snapshot.target:
        case OwnRun():
            return "the stream has ended, all windows closed"
        case FlinkJob(state=state):
            return f"the job is {state}"
        case _:
            still = snapshot.windows.open_count
            return "the query was stopped" + (f", open windows: {f.count(still)}" if still else "")


def facts_of_plugin(snapshot: Snapshot) -> list[OtherFact]:
    """The facts of a plug-in's target; empty for every other."""
    return snapshot.target.facts if isinstance(snapshot.target, Other) else []


def fact_text(fact: OtherFact) -> str:
    """The value with its unit: ms as a duration, any other unit after the number."""
    value = fact.value
    if value is None or isinstance(value, str):
        return f.UNKNOWN if value is None else f.label(value)
    if fact.unit == "ms":
        return f.duration(value)
    number = f.count(value) if isinstance(value, int) else f"{value:.2f}"
    return f"{number} {f.label(fact.unit)}" if fact.unit else number


def named_facts(snapshot: Snapshot) -> Iterator[tuple[str, float | str | None]]:
    """The facts as `check` names them: `kind.name`."""
    if isinstance(other := snapshot.target, Other):
        yield from ((f"{other.kind}.{fact.name}", fact.value) for fact in other.facts)


_MAX_SIBLINGS = 8


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


def first_started(snapshot: Snapshot) -> str:
    """What to add to the delays of a query of which only those of its first start are known."""
    return " as first started" if (snapshot.origin or {}).get("lateness") == STATE_SCHEMA else ""


def node_lines(snapshot: Snapshot) -> list[str]:
    """If there are several watermarks, each with its delay and its effect on the query's, a line each."""
    lines: list[str] = []
    for node in snapshot.spark.nodes or ():
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
        column = f.clean(node.column or "an unknown column")
        delay = delay_words(node.delay_ms) + first_started(snapshot)
        lines.append(f"watermark on {column}{source}, delay {delay}: {words}")
    return lines if len(lines) > 1 else []


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


def no_watermark(snapshot: Snapshot) -> str:
    """Why there is no watermark; rows are mentioned only if the query reports them."""
    spark = snapshot.spark
    if spark.has_watermark is False or spark.never_moved:
        return "none: this query has no withWatermark" if spark.has_watermark is False else "still at 1970"
    return f.ELSEWHERE if (snapshot.origin or {}).get("level") == "driver" else f.NO_DATA


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
    clock_ms = clock_distance_ms(snapshot)
    if level.behind_fastest_ms or (level.behind_fastest_ms == 0 and clock_ms is None):
        text = f.duration(level.behind_fastest_ms)
        parts.append(part((text, "strong"), (" behind fastest", "dim"), rank=2))
    if clock_ms is not None:
        text = f.duration(abs(clock_ms))
        side = " behind clock" if clock_ms >= 0 else " ahead of clock"
        parts.append(part((text, "strong"), (side, "dim"), rank=3, gap=" · " if parts[1:] else "   "))
    if (ago := moved(snapshot)) is not None:
        parts.append(part(("moved ", "dim"), (ago, "strong"), rank=4, gap=" · " if parts[1:] else "   "))
    return parts


def clock_distance_ms(snapshot: Snapshot) -> int | None:
    """How far the watermark is behind the clock (ms); None: not known, or the data are too old for that to matter."""
    behind = snapshot.level.behind_clock_ms
    return None if behind is None or behind >= f.YEAR else behind


def late_drops(snapshot: Snapshot) -> str:
    """Number of records dropped as late, `≥ 17` for a lower bound; for a Spark query: rows."""
    late, dropped = snapshot.totals.late, snapshot.spark.dropped_at_least
    if late is None:
        bound = f.count if snapshot.spark.dropped_exact else f.at_least
        return f.ELSEWHERE if dropped is None else bound(dropped)
    return f"≥ {f.count(late)}" if snapshot.job.late_at_least else f.count(late)


def moved(snapshot: Snapshot) -> str | None:
    """How long ago the watermark moved."""
    since = snapshot.level.moved_ms
    if since is None or snapshot.now_ms is None:
        return None
    age_ms = snapshot.now_ms - since
    return "just now" if age_ms < f.SECOND else f"{f.duration(age_ms)} ago"


def motion(snapshot: Snapshot) -> str:
    """When the watermark moved, and how far it is from the clock; empty if neither is known."""
    ago, distance = moved(snapshot), clock_distance_ms(snapshot)
    moments = ago and f"the watermark moved {ago}", None if distance is None else f.behind_clock(distance)
    return " · ".join(filter(None, moments))


def ahead_elsewhere(snapshot: Snapshot) -> bool:
    """Whether the slowest channel is on time, and the fastest ahead of the clock."""
    holder = snapshot.level.holder
    return holder is not None and holder.cause == "future_elsewhere"


def cause(snapshot: Snapshot) -> str:
    """Why the holder holds back the watermark, in words with numbers."""
    holder, level = snapshot.level.holder, snapshot.level
    if holder is None:
        return ""
    behind = None if level.behind_fastest_ms is None else f.duration(level.behind_fastest_ms)
    if holder.cause == "behind" and behind is not None and is_close(snapshot):
        return f"{behind} behind in event time, as lateness allows"
    view = holding_view(snapshot)
    fastest = fastest_view(snapshot) if holder.cause == "future_elsewhere" else None
    if isinstance(snapshot.target, FlinkJob):
        all_read = False  # its REST API does not show what is unread
    elif snapshot.source is not None and snapshot.source.kind in ("kafka", "topic", "group"):
        all_read = view is not None and view.backlog == 0
    else:
        all_read = True  # a replay's unread records have not arrived yet
    stuck = "does not move"
    if view is not None and view.since_ms is not None and snapshot.now_ms is not None:
        stuck = f"has not moved for {f.duration(max(snapshot.now_ms - view.since_ms, 0))}"
    return (
        kind_words(snapshot)
        .causes[holder.cause]
        .sentence.format(
            quiet=f" for {f.duration(view.quiet_ms)}" if view and view.quiet_ms is not None else "",
            all_read=", no backlog" if all_read else "",
            backlog=f" of {f.counted(view.backlog, 'record')}" if view and view.backlog is not None else "",
            lag=f", {f.duration(view.behind_end_ms)} of event time" if view and view.behind_end_ms is not None else "",
            behind=behind or "far",
            fastest="another channel" if fastest is None else name(fastest.channel),
            busy_after=busy_after(snapshot),
            stuck=stuck,
            kept_back=kept_back(snapshot),
        )
    )


def task_or_input(snapshot: Snapshot) -> str | None:
    """That a task of a Flink job waits, or that its input holds back the watermark; None: another answer is known."""
    if snapshot.level.holder is not None or snapshot.job.held_in is None:
        return None
    return f"What holds it back is not known: {kept_back(snapshot, 'waits, or always sends its watermark')}"


def worst_clock(snapshot: Snapshot) -> Clock | None:
    """The clock that the verdict is about; None for targets with a watermark, and before the first commit."""
    return snapshot.target.worst if isinstance(snapshot.target, KafkaStreams) else None


def of_its_kind(snapshot: Snapshot, text: str) -> str:
    """A sentence on the watermark, for a target without one: on its stream time."""
    if kind_words(snapshot).has_watermark:
        return text
    return text.replace("The watermark", "Stream time").replace("the watermark", "stream time")


def lag_ms(snapshot: Snapshot) -> int | None:
    """How far the watermark is behind the clock (ms); without one, the stream time of the worst task."""
    worst = worst_clock(snapshot)
    if worst is None or worst.time_ms is None or snapshot.now_ms is None:
        return snapshot.level.behind_clock_ms
    return snapshot.now_ms - worst.time_ms


def held_ms(snapshot: Snapshot) -> int | None:
    """How long (ms) the channel has held back the watermark."""
    holder, now_ms = snapshot.level.holder, snapshot.now_ms
    return None if holder is None or now_ms is None else max(now_ms - holder.since_ms, 0)


def held_for(snapshot: Snapshot) -> str:
    """` for 38s`, ` for ≥ 38s`: how long the channel has held back the watermark; empty if that is not known."""
    holder, held = snapshot.level.holder, held_ms(snapshot)
    return "" if holder is None or held is None else f" for {'≥ ' if holder.at_least else ''}{f.duration(held)}"


def window(settings: Settings) -> str:
    """The windows in words: `1h`, `1h every 15m`, `session 30m`; `not known from here` if unknown."""
    spec = settings.window
    if spec is None:
        return f.ELSEWHERE
    if isinstance(spec, Session):
        return f"session {f.setting(spec.gap_ms)}"
    every = f" every {f.setting(spec.slide_ms)}" if isinstance(spec, Sliding) else ""
    return f.setting(spec.size_ms) + every
