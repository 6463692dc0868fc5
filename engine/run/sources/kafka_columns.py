"""Where a Kafka record has its event time, its channel and its watermark, and these columns as SQL."""

from typing import Literal

from msgspec import Struct

from ...system.json_values import JsonPath, TimeUnit, parse_json_path
from ...watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS
from .base import CHANNEL, NO_CHANNEL, OFFSET, PART, RECORD, TIME, WATERMARK, RecordColumns, record_sql, text_literal
from .event_time_sql import text_to_ms_sql

_USABLE_TIMESTAMP = f"case when timestamp_ms between {FIRST_USABLE_MS}L and {LAST_USABLE_MS}L then timestamp_ms end"
"""A record's own timestamp; producers that give microseconds there write times of the year 55,000."""


class KafkaColumns(Struct, frozen=True):
    """The places of event time and channel in a record."""

    time: JsonPath | None = None
    """The event time's path in the value; None: the record's own timestamp."""
    unit: TimeUnit = "auto"
    """The unit of times in the value."""
    channel: JsonPath | Literal["partition", "key"] = "partition"
    watermark: JsonPath | None = None
    """`source`: the path of the producer's own watermark."""
    marker: str | None = None
    """`punctuated`: a condition on topic, partition, offset, timestamp_ms, key and value (both text)."""

    @property
    def needs_value(self) -> bool:
        """Whether any column is read from the value."""
        return self.marker is not None or any(
            isinstance(p, JsonPath) for p in (self.time, self.channel, self.watermark)
        )

    @property
    def needs_key(self) -> bool:
        """Whether any column is read from the key."""
        return self.marker is not None or self.channel == "key"

    @property
    def plain(self) -> bool:
        """Whether channels are partitions, and nothing is read from key and value."""
        return self.by_partition and not self.needs_key and not self.needs_value

    @property
    def by_partition(self) -> bool:
        """Whether channels are partitions."""
        return self.channel == "partition"

    def text_sql(self, more: RecordColumns) -> list[str]:
        """The raw columns, with key and value as text, and the whole record unchanged.

        Confluent's five bytes before JSON of a schema are cut off.
        """
        # A key may be any bytes (a long, a UUID): bytes that are not text are shown as hex. A value like that is not
        # JSON.
        key = "coalesce(try_validate_utf8(cast(key as string)), concat('0x', lower(hex(key))))"
        value = "try_validate_utf8(cast(if(substring(value, 1, 1) = x'00', substring(value, 6), value) as string))"
        columns = ["topic", "partition", "offset", "timestamp_ms", f"{key} as key", f"{value} as value"]
        if more.whole:
            stamp = "timestamp_millis(timestamp_ms) as timestamp"
            columns += record_sql((), ("topic", "partition", "offset", stamp, "key", "value", "headers"))
        return columns

    def canonical_sql(self, topics: list[str], more: RecordColumns) -> list[str]:
        """The canonical columns over `text_sql`; a record's part is its partition, plus 2^32 for each topic before."""
        channel = "cast(partition as string)"
        part = "cast(partition as bigint)"
        if len(topics) > 1:
            names = ", ".join(text_literal(topic) for topic in sorted(topics))
            part = f"(array_position(array({names}), topic) - 1) * 4294967296L + partition"
            channel = "concat(topic, '-', partition)"
        if self.channel != "partition":
            text = "key" if self.channel == "key" else _field(self.channel)
            channel = f"coalesce({text}, {text_literal(NO_CHANNEL)})"
        time = _USABLE_TIMESTAMP if self.time is None else self._time_sql(self.time)
        columns = [f"{channel} as {CHANNEL}", f"{time} as {TIME}", f"offset as {OFFSET}", f"{part} as {PART}"]
        if self.watermark is not None:
            columns.append(f"{self._time_sql(self.watermark)} as {WATERMARK}")
        columns += record_sql([explained_sql(name) for name in more.explain], ())
        return [*columns, RECORD] if more.whole else columns

    def _time_sql(self, path: JsonPath) -> str:
        return text_to_ms_sql(_field(path), self.unit)


def explained_sql(name: str) -> str:
    """The SQL for a column of `--explain`: `partition`, `key`, `topic`, or a field of the JSON value; UsageError
    otherwise.
    """
    if name in ("partition", "key", "topic"):
        return f"cast({name} as string)"
    return _field(parse_json_path(name, "--explain"))


def _field(path: JsonPath | str) -> str:
    assert isinstance(path, JsonPath)
    return f"get_json_object(value, {text_literal(path.sql())})"
