"""Event times in records whose values are JSON."""

from typing import Any

import msgspec

from ..errors import UsageError
from ..event_time import BELOW, TimeUnit, json_to_ms
from ..json_path import JsonPath, near_paths
from .cluster import Cluster, Record
from .offsets import TopicPartition

_SAMPLED = 50


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
    times = [found for value in values if (found := path.of(value)) is not None]
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
