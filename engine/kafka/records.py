"""Reads the last records before given offsets, and the event times in JSON values."""

import time
from collections.abc import Mapping
from typing import Any

import msgspec
from kafka.errors import KafkaError

from ..system.errors import RunError, UsageError
from ..system.event_time import BELOW, TimeUnit, json_to_ms
from ..system.json_path import JsonPath, near_paths
from .client_settings import KafkaConfig
from .cluster import Cluster, Positions, Record, TopicPartition, consumer_of, record_of, said

_SAMPLED = 50

WITHIN_S = 3.0
_BACK = 8
"""How many offsets before the given one to begin: the offsets right before it may hold a transaction marker or be
compacted away.
"""
_POLL_MS = 200


def time_in(record: Record, path: JsonPath, unit: TimeUnit | None) -> int | None:
    """The time (ms) in a record's value; `unit` None: by its size. None if it is not JSON, or has no such field or no
    time.
    """
    value = path.of(_decoded(record))
    return json_to_ms([value], unit or _unit_of(value) or "ms")[0].as_py()


def look_for_times(cluster: Cluster, partitions: list[TopicPartition], path: JsonPath) -> str | None:
    """The format of times in the latest records, None without records; UsageError if none has the field."""
    first, last = cluster.earliest(partitions), cluster.latest(partitions)
    recent = {p: max(first[p], last[p] - _SAMPLED) for p in partitions if last[p] > first[p]}
    values = [value for record in cluster.read(recent, _SAMPLED) if (value := _decoded(record)) is not None]
    times = [field for value in values if (field := path.of(value)) is not None]
    if values and not times:
        near = near_paths(path, values)
        hint = f"; near ones: {', '.join(near)}" if near else ""
        raise UsageError(f"--time {path}: none of the last {len(values)} records has it{hint}")
    return _recognised(times[-1]) if times else None


def _decoded(record: Record) -> Any:
    value = record.value
    if not value:
        return None
    try:
        return msgspec.json.decode(value[5:] if value[:1] == b"\0" else value)
    except msgspec.DecodeError:
        return None


def _recognised(value: Any) -> str:
    """The format that a time's value shows by itself; the same rule as `recognised_to_ms_sql`."""
    unit = _unit_of(value)
    return "ISO 8601" if unit is None else f"epoch {unit}"


def _unit_of(value: Any) -> TimeUnit | None:
    """The unit of a number, by its size; None for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    for unit, below in BELOW.items():
        if abs(number) < below:
            return unit
    return "ns"


class Peek:
    """Reads without a group and without committing; RunError if the cluster does not answer."""

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._consumer: Any = None

    def before(self, offsets: Positions, first: Positions) -> dict[TopicPartition, Record]:
        """The last record before each offset, if there is one close by; `first` are the first available offsets."""
        return {partition: records[-1] for partition, records in self.tails(offsets, first, {}).items()}

    def tails(
        self, offsets: Positions, first: Positions, back: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[Record]]:
        """The last records before each offset, in order, from `back` (at least 8) offsets before it."""
        with_records = {p: offset for p, offset in offsets.items() if offset > first.get(p, 0)}
        if not with_records:
            return {}
        try:
            return self._before(with_records, first, back)
        except (KafkaError, OSError, ValueError) as error:
            self.close()
            raise RunError(f"the Kafka cluster at {self._config.bootstrap} gave no answer: {said(error)}") from None

    def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close(autocommit=False, timeout_ms=1_000)

    def _before(
        self, offsets: Positions, first: Positions, back: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, list[Record]]:
        consumer = self._connected()
        consumer.assign(list(offsets))
        consumer.resume(*offsets)  # a partition that stays assigned stays paused
        for partition, offset in offsets.items():
            consumer.seek(partition, max(first.get(partition, 0), offset - max(_BACK, back.get(partition, 0))))
        tails: dict[TopicPartition, list[Record]] = {}
        left = set(offsets)
        deadline = time.monotonic() + WITHIN_S
        while left and time.monotonic() < deadline:
            for partition, records in consumer.poll(timeout_ms=_POLL_MS).items():
                near = [record for record in records if record.offset < offsets[partition]]
                if near:
                    tails.setdefault(partition, []).extend(record_of(partition, record) for record in near)
            # Past the offset, by records or control records.
            done = {p for p in left if (consumer.position(p, timeout_ms=1_000) or 0) >= offsets[p]}
            left -= done
            consumer.pause(*done)
        return tails

    def _connected(self) -> Any:
        if self._consumer is None:
            self._consumer = consumer_of(self._config, max_partition_fetch_bytes=64 * 1024, fetch_max_wait_ms=_POLL_MS)
        return self._consumer
