"""The chain of an attached Spark query of which only the one clock is known. Pure."""

from datetime import tzinfo

from ...engine.core.snapshot import OperatorKind, Snapshot, SourcePosition, StatefulOperator, WatermarkNode
from . import formatting as f
from .chain import Stage, clock_stage, gap, windows_stage
from .wording import name


def stages_of_query(snapshot: Snapshot, zone: tzinfo | None) -> list[Stage]:
    """Sources, watermark nodes, the query's watermark, its state, its windows; most may be unknown."""
    spark = snapshot.spark
    out = [clock_stage(snapshot), *(_position(source) for source in snapshot.sources or ())]
    if not snapshot.sources:
        what = "" if snapshot.source is None else f.clean(snapshot.source.description)
        out.append(Stage("source", None, what, stands_for=f.ELSEWHERE))
    out += [_node(node) for node in spark.nodes or ()]
    if spark.nodes is None and spark.has_watermark is not False:
        delay = snapshot.settings.lateness_ms
        why = f"delay {f.ELSEWHERE if delay is None else f.setting(delay)}"
        out.append(Stage("watermark node", None, "withWatermark", why=why, stands_for=f.ELSEWHERE))
    if spark.has_watermark is False:
        out.append(Stage("watermark", None, "this query has no watermark", stands_for="none"))
        return [*out, *_operators(snapshot), windows_stage(snapshot, zone)]
    level = snapshot.level.watermark_ms if spark.watermark_ms is None else spark.watermark_ms
    held = gap(snapshot.now_ms, level)
    out.append(Stage("watermark", level, _in_force(snapshot, zone), held, _policy(snapshot), stands_for=f.NO_DATA))
    return [*out, *_operators(snapshot), windows_stage(snapshot, zone)]


OPERATORS: dict[OperatorKind, str] = {
    "aggregation": "aggregation",
    "session": "session windows",
    "join": "stream-stream join",
    "dedup": "dropDuplicates",
    "dedup_within_watermark": "dropDuplicatesWithinWatermark",
    "limit": "limit",
    "map_groups_with_state": "mapGroupsWithState",
    "transform_with_state": "transformWithState",
    "other": "stateful operator",
}


def _node(node: WatermarkNode) -> Stage:
    delay = f.ELSEWHERE if node.delay_ms is None else f.setting(node.delay_ms)
    column = "an unknown column" if node.column is None else f"column {name(node.column)}"
    stuck = {"no_input": "its input has no records", "own_output": "it waits for the query's own output"}
    if node.pinned is not None:
        why = f"{stuck[node.pinned]}, delay {delay}"
        return Stage("watermark node", None, column, why=why, holds=True, stands_for="1970")
    words = f"delay {delay}" + (", sets the watermark of the query" if node.holds else "")
    return Stage("watermark node", node.watermark_ms, column, why=words, holds=node.holds, stands_for=f.ELSEWHERE)


def _operators(snapshot: Snapshot) -> list[Stage]:
    """The stateful operators, those next to the sources first; one entry for all if they are not known."""
    known = snapshot.spark.operators
    if known is None or len(known) < 2:
        counted = any(one.rows is not None for one in known or ())
        state = _state(snapshot, counted=counted)
        what = ", ".join(part for part in ([_operator(one) for one in known or ()] + [state]) if part)
        return [Stage("state", None, what, stands_for="" if what else f.ELSEWHERE)]
    stages = [Stage("state", None, _operator(one)) for one in reversed(known)]
    return [*stages, Stage("state", None, _state(snapshot), stands_for="" if _state(snapshot) else f.ELSEWHERE)]


def _operator(one: StatefulOperator) -> str:
    mode = "" if one.output_mode is None else f" in {one.output_mode} mode"
    rows = "" if one.rows is None else f", {f.counted(one.rows, 'row')}"
    keeps = ", never removes state" if one.evicts is False and one.output_mode != "complete" else ""
    return f"{OPERATORS[one.kind]}{mode}{keeps}{rows}"


def _position(source: SourcePosition) -> Stage:
    backlog = f.ELSEWHERE if source.backlog is None else f.counted(source.backlog, "record")
    return Stage("source", None, f"{f.cut(f.clean(source.description), 60)}, backlog {backlog}")


def _policy(snapshot: Snapshot) -> str:
    spark = snapshot.spark
    nodes = len(spark.nodes or ())
    side = "ahead of the clock" if (snapshot.level.behind_clock_ms or 0) < 0 else "behind the clock"
    if nodes > 1:
        word = {"min": "minimum", "max": "maximum", None: f"policy {f.ELSEWHERE}: the minimum by default"}
        return f"{side}; the {word[spark.policy]} of {nodes} nodes"
    return side


def _in_force(snapshot: Snapshot, zone: tzinfo | None) -> str:
    spark, batch = snapshot.spark, snapshot.batch
    what = "of the query, for the next batch"
    if spark.frozen_ms is not None:
        what = f"frozen after a restart: {f.duration(spark.frozen_ms)} of event time to go"
    if spark.batch_watermark_ms is None or spark.batch_watermark_ms == spark.watermark_ms:
        return what
    number = "the last batch" if batch is None else f"batch {batch:,}"
    near_ms = f.reference_ms(snapshot.now_ms, snapshot.level.watermark_ms)
    return f"{what}; {number} used {f.near(spark.batch_watermark_ms, zone, near_ms)}"


def _state(snapshot: Snapshot, *, counted: bool = False) -> str:
    """The total state as reported; `counted`: its rows are shown already."""
    spark = snapshot.spark
    reported = [] if spark.state_rows is None or counted else [f.counted(spark.state_rows, "row")]
    reported += [] if spark.state_bytes is None else [f"{spark.state_bytes / 1_048_576:,.1f} MiB of memory"]
    lost = spark.dropped_at_least
    reported += [] if lost is None else [f"dropped {f.at_least(lost)} row{'s' * (lost != 1)}"]
    return ", ".join(reported)
