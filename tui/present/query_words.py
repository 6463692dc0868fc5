"""The identity, output mode, watermarks and sibling queries of an attached Spark query, in words. Pure."""

from ...engine.core.snapshot import Snapshot, WatermarkNode
from . import formatting as f
from .notes import note_text
from .target import target_of

_MAX_SIBLINGS = 8


def identity(snapshot: Snapshot) -> str | None:
    """What is attached to, as short as possible: the query's own name, else the end of its path."""
    if not target_of(snapshot).is_attached:
        return None
    spark, source, job = snapshot.spark, snapshot.source, snapshot.flink
    if job is not None:
        return f"job {job.id[:8]}" if job.name == snapshot.name else f"job {job.name} {job.id[:8]}"
    if spark.query_name is not None and spark.query_name != snapshot.name:
        return f"query {spark.query_name}"
    if source is not None and "/" in source.description:
        return "/".join(source.description.split("/")[-2:])
    return None


def whole_identity(snapshot: Snapshot) -> str:
    """All that identifies the query: its name, its id, and what was attached to."""
    spark, source, job = snapshot.spark, snapshot.source, snapshot.flink
    if job is not None:
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
