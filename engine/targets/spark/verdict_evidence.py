"""What a look at a Spark query shows of whether its watermark moves."""

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ...snapshot import Snapshot, SparkProgress
from ...verdict.evidence import Evidence
from ..evidence import evidence_of_channels, known


def verdict_evidence_of(shown: Snapshot) -> Evidence:
    """The evidence of a query as it is shown, in our time."""
    spark = shown.spark
    condition = shown.condition
    channels = evidence_of_channels(shown)
    unread = channels.unread
    if condition.idle and unread:
        unread = None  # `minOffsetsPerTrigger` delays them, or they have just come: neither is known
    has_stopped = shown.state == "stale" and condition.standstill is not None
    return replace(
        channels,
        unread=unread,
        last_read_ms=_last_read_ms(shown) if condition.idle else UNSET,
        reached=channels.reached | _inputs(spark),
        inconclusive="continuous" if condition.continuous else condition.pause,
        settled=condition.continuous or condition.pause == "unknown" or has_stopped,
        beat="spark",
        batch=shown.batch,
        identity=spark.query_id,
        restarted_ms=spark.run_started_ms,
        frozen_by_lateness_ms=spark.frozen_ms,
    )


def _last_read_ms(shown: Snapshot) -> int | UnsetType | None:
    """When an idle query read its last record: none came since the batch that moved the watermark, or else since the
    last one; in real-time mode some follow it.
    """
    spark = shown.spark
    if spark.real_time_ms is not None:
        return None
    return shown.level.moved_ms if spark.batches_unmoved == 0 else spark.batch_timestamp_ms


def _inputs(spark: SparkProgress) -> dict[str, int]:
    """How far each input has come, where there are several: the query's watermark is that of one of them."""
    nodes = spark.nodes or []
    return known({f"input {place}": node.reached_ms for place, node in enumerate(nodes)}) if len(nodes) > 1 else {}
