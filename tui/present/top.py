"""The lines at the top of every screen, as data. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from .line import Part

SPARK_CELLS, SPARK_CELL_MS = 36, 5_000
"""The sparkline of lags: how many cells, and the time of each."""


class WatermarkLine(Struct, frozen=True):
    """The watermark's line: the watermark, its holder, and the lags of the last minutes (ms, the newest last)."""

    level: Sequence[Part] = ()
    holder: Sequence[Part] = ()
    lags: Sequence[int | None] = ()


class Top(Struct, frozen=True):
    """The lines' content; `banner` (text and ink) and `log` are empty if there is nothing to show."""

    status: Sequence[Part] = ()
    verdict: Sequence[Part] = ()
    story: WatermarkLine = WatermarkLine()
    tuning: Sequence[Part] = ()
    now: Sequence[Part] = ()
    """The effect of the preview at the next emit, or of an applied setting; else nothing."""
    from_start: Sequence[Part] = ()
    """The effect of the preview from the start; empty without a preview."""
    banner: tuple[str, str] | None = None
    log: str | None = None
