"""What a run is fed: batches of rows, ticks, changes, the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wmtop.engine.watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS

NO_CHANNEL = "(none)"


class Row(NamedTuple):
    """A record in replay order: `extra` is the marker (bool) or the source's watermark (ms)."""

    arrival: int | None
    channel: str | None
    ts: int | None
    extra: int | bool | None = None


@dataclass(frozen=True)
class Batch:
    """One micro-batch; `own_arrival`: the future guard looks at each record's own arrival (replay)."""

    rows: tuple[Row, ...]
    now: int
    own_arrival: bool = True


@dataclass(frozen=True)
class Tick:
    now: int


@dataclass(frozen=True)
class SetLateness:
    lateness: int


@dataclass(frozen=True)
class SetIdle:
    idle_after: int | None


@dataclass(frozen=True)
class Known:
    """The source tells of channels before their first record."""

    names: tuple[str, ...]
    now: int


@dataclass(frozen=True)
class Paused:
    """A time (ms) has passed that counts towards no idle timeout: of these channels (backlog), of all (paused)."""

    duration: int
    names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Finished:
    """These channels send nothing more."""

    names: tuple[str, ...]
    now: int


@dataclass(frozen=True)
class Gone:
    """These channels no longer exist."""

    names: tuple[str, ...]
    now: int


@dataclass(frozen=True)
class End:
    now: int


Op = Batch | Tick | SetLateness | SetIdle | Known | Paused | Finished | Gone | End


def in_batches(rows: Sequence[Row], batch_rows: int) -> list[Op]:
    """What `--batch-rows` makes of rows in replay order, the end included."""
    ops: list[Op] = []
    now = 0
    for at in range(0, len(rows), batch_rows):
        part = tuple(rows[at : at + batch_rows])
        arrivals = [row.arrival for row in part if row.arrival is not None]
        now = arrivals[-1] if arrivals else now
        ops.append(Batch(part, now))
    return [*ops, End(now)]


def in_replay_order(rows: Sequence[Row]) -> list[Row]:
    """A stable sort by arrival; rows without a usable one come first."""
    return sorted(rows, key=lambda row: (row.arrival is not None, row.arrival))


def with_arrivals(rows: Sequence[Row]) -> list[Row]:
    """Rows of a file without an arrival column: each arrives at the greatest event time so far."""
    greatest: int | None = None
    arrived: list[Row] = []
    for row in rows:
        if row.ts is not None and FIRST_USABLE_MS <= row.ts <= LAST_USABLE_MS:
            greatest = row.ts if greatest is None else max(greatest, row.ts)
        arrived.append(row._replace(arrival=greatest))
    return arrived
