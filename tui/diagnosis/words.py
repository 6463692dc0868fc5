"""What the words for all findings are made of. Pure."""

from collections.abc import Callable, Sequence
from datetime import tzinfo
from typing import Any

from msgspec import Struct

from ...engine.core.doctor import Finding
from ...engine.core.job_line import line_in_job
from ...engine.core.snapshot import Snapshot
from .. import formatting as f
from ..screens.picture import Wish
from ..wording import name


class Told(Struct, frozen=True):
    """What is said of a finding; see `Diagnosis`."""

    title: str
    cost: str
    evidence: Sequence[str]
    cause: str
    remedy: Sequence[str]
    wish: Wish | None = None


class At(Struct, frozen=True):
    """What the words depend on beside the finding."""

    snapshot: Snapshot
    zone: tzinfo | None

    def change(self, value_ms: int | None, *, idle: bool = False) -> str:
        """A setting, and of a query that others run the line of its job that changes it."""
        what = f"{'idle timeout' if idle else 'lateness'} {f.setting(value_ms)}"
        line = line_in_job(self.snapshot, value_ms, idle=idle)
        return what if line is None else f"{what}, in the job: {line}"


Tellers = dict[type[Finding], Callable[[Any, At], Told]]


def n(number: int | None, thing: str) -> str:
    """`1 window`, `1,204 records`; without a number `– records`."""
    return f"{f.count(number)} {thing}{'' if number == 1 else 's'}"


def ago(ms: int | None) -> str:
    """A time that has passed, `–` where it is not known."""
    return f.UNKNOWN if ms is None else f.duration(ms)


def column(text: str | None) -> str:
    """The time column by its name."""
    return "the time column" if text is None else f"column {name(text)}"


def place(channel: str, offset: int | None, part: str | None) -> str:
    """Where a record stands: its channel, its offset, the part of the source."""
    where = "" if offset is None else f", offset {offset:,}{' of ' + name(part) if part else ''}"
    return name(channel) + where
