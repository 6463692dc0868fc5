"""The output of windows: the lines of `--firings`, and the windows that fired last."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

MOST_FIRED = 20


class FiredWindow(Struct, frozen=True):
    """A window that has fired, first at processing time `fired_ms`, with its records at its last firing."""

    start_ms: int
    end_ms: int
    records: int = 0
    fired_ms: int | None = None
    late_firings: int = 0
    late_drops: int = 0
    """Records dropped for it after it closed, while it was among the windows that fired last."""
    ended: bool = False
    """It fired at the end of the stream."""


class Firing(Struct, frozen=True):
    """A firing by the watermark or the end (`fire`), by late records (`late_fire`), or records dropped (`late`).

    `watermark_ms` is the watermark that caused it, None at the end of stream; `firings` is one per record for a
    `late_fire`, 0 for a `late`.
    """

    kind: Literal["fire", "late_fire", "late"]
    batch: int | None
    channel: str | None
    start_ms: int | None
    end_ms: int | None
    records: int
    firings: int
    watermark_ms: int | None
    ended: bool = False


class FiredWindows(Struct):
    """The windows that fired last, by first firing, the oldest first; `last` is never changed in place, only
    replaced.
    """

    last: list[FiredWindow] = []

    def take(self, firings: list[Firing], now: int | None) -> None:
        """Add what windows did at processing time `now` (ms)."""
        if not firings:
            return
        windows = {(window.start_ms, window.end_ms): window for window in self.last}
        drops: dict[tuple[int, int], int] = {}
        for line in firings:
            if line.start_ms is None or line.end_ms is None:
                continue
            key = (line.start_ms, line.end_ms)
            if line.kind == "late":
                drops[key] = drops.get(key, 0) + line.records
                continue
            known = windows.get(key) or FiredWindow(*key, fired_ms=now, ended=line.ended)
            late = line.firings if line.kind == "late_fire" else 0
            windows[key] = replace(known, records=line.records, late_firings=known.late_firings + late)
        for key in drops.keys() & windows.keys():
            windows[key] = replace(windows[key], late_drops=windows[key].late_drops + drops[key])
        self.last = list(windows.values())[-MOST_FIRED:]
