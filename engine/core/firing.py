"""What windows did: the lines of `--firings`."""

from typing import Literal

from msgspec import Struct


class Firing(Struct, frozen=True):
    """A firing by the level or the end (`fire`), by late records (`late_fire`), or records dropped (`late`).

    `watermark_ms` is the level that fired or dropped, None at the end of stream; `firings` is one per record for a
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
