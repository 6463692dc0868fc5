"""A Kafka record without a usable event time, read once more to show it."""

from ...kafka.client_settings import KafkaConfig
from ...kafka.cluster import Peek, Record, why_none_in
from ...system.errors import RunError
from ...watermarks.observation import MAX_VALUE, MalformedRecord, Offender, WhyNoTime
from .kafka_columns import KafkaColumns
from .kafka_progress import KafkaProgress


def malformed_record(
    config: KafkaConfig, columns: KafkaColumns, progress: KafkaProgress, last: Offender
) -> MalformedRecord | None:
    """A run's last malformed record, read once more; None: it is no longer there, or the cluster does not answer."""
    named = {progress.channel_of(p) if columns.by_partition else f"{p.topic}-{p.partition}": p for p in progress.starts}
    partition = named.get(last.channel if columns.by_partition else last.part or "")
    if partition is None or last.offset is None:
        return None
    peek = Peek(config)
    try:
        record = peek.before({partition: last.offset + 1}, {}).get(partition)
    except RunError:
        return None
    finally:
        peek.close()
    if record is None or record.offset != last.offset:
        return None
    value, why = _why_no_timestamp(record) if columns.time is None else why_none_in(record, columns.time)
    where = f"offset {last.offset:,} of {partition.topic}-{partition.partition}"
    return MalformedRecord(last.channel, where, str(columns.time or "timestamp"), value and value[:MAX_VALUE], why)


def _why_no_timestamp(record: Record) -> tuple[str | None, WhyNoTime]:
    stamp = record.timestamp_ms
    return (None, "missing") if stamp is None else (str(stamp), "out_of_range")
