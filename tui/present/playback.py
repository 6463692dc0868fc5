"""The position of a replay, as the screen shows it."""

from msgspec import Struct


class Playback(Struct, frozen=True):
    """The position of a replay (snapshot `number` of `count`, from 0), and how it continues; `note` is one line, or
    None.
    """

    number: int
    count: int
    playing: bool
    speed: float
    note: str | None = None

    @property
    def word(self) -> str:
        """The status word."""
        if self.playing:
            return f"REPLAY ▶ ×{self.speed:g}"
        return "REPLAY END" if self.number + 1 == self.count else "REPLAY PAUSED"
