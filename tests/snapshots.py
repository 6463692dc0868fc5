"""Snapshots built and changed by their JSON names: the parts of all kinds of target side by side."""

from typing import Any, TypeVar, cast

from msgspec import UNSET, structs
from wmtop.engine.feed.messages import SnapshotLine, line_of, snapshot_of_line
from wmtop.engine.snapshot import KafkaTopic, Snapshot, SparkProgress, SparkQuery

_T = TypeVar("_T")


def snapshot_for(**parts: Any) -> Snapshot:
    """The snapshot of these parts; they decide what kind of target it is."""
    return _snapshot(SnapshotLine(**parts))


def replace(value: _T, **changes: Any) -> _T:
    """As msgspec's `replace`; for a snapshot, changes may name parts of its kind of target."""
    if isinstance(value, Snapshot) and "target" not in changes:
        untagged: dict[str, Any] = {"target_kind": UNSET}
        return cast(_T, _snapshot(structs.replace(line_of(value), **(untagged | changes))))
    return cast(_T, structs.replace(cast(Any, value), **changes))


def _snapshot(line: SnapshotLine) -> Snapshot:
    """What Spark reports makes it a Spark query, also with the settings of another kind of target."""
    snapshot = snapshot_of_line(line)
    if isinstance(snapshot.target, KafkaTopic) and line.spark != SparkProgress():
        target = SparkQuery(line.spark, line.sources, line.barrel, line.siblings)
        return structs.replace(snapshot, target=target)
    return snapshot
