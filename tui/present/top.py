"""The lines at the top of every screen, as data. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from .line import Part

SPARK_CELLS, SPARK_CELL_MS = 36, 5_000
"""The sparkline of lags: how many cells, and the time of each."""


class Story(Struct, frozen=True):
    """The watermark's line: the watermark, its holder, and the lags of the last minutes (ms, the newest last)."""

    level: Sequence[Part] = ()
    holder: Sequence[Part] = ()
    lags: Sequence[int | None] = ()


class Top(Struct, frozen=True):
    """What the lines say; `banner` (text and ink) and `log` are there only when they say something."""

    status: Sequence[Part] = ()
    verdict: Sequence[Part] = ()
    story: Story = Story()
    tuning: Sequence[Part] = ()
    now: Sequence[Part] = ()
    """What the preview does at the next emit, or what a setting did when it was applied; else nothing."""
    from_start: Sequence[Part] = ()
    """What the preview would have given from the start; without one nothing."""
    banner: tuple[str, str] | None = None
    log: str | None = None
