"""How often channels turn idle: the time from one idleness to the next, which is short where idleness flaps."""

from msgspec import Struct


class Round(Struct):
    """When a channel last turned idle, and how long the rounds before took (ms); the last counts half."""

    began_ms: int
    length_ms: int | None = None


class Rounds(Struct):
    """The rounds of all channels that have ever been idle, by number."""

    of: dict[int, Round] = {}

    def turned_idle(self, channels: set[int], now: int) -> None:
        """These channels turn idle at processing time `now` (ms)."""
        for channel in channels:
            last = self.of.get(channel)
            if last is None:
                self.of[channel] = Round(now)
            else:
                took = now - last.began_ms
                mean = took if last.length_ms is None else (last.length_ms + took) // 2
                self.of[channel] = Round(now, mean)

    def length_ms(self, channel: int, now: int) -> int | None:
        """How long a round takes lately (ms), the present one where that is longer already; None before the second."""
        last = self.of.get(channel)
        if last is None or last.length_ms is None:
            return None
        return max(last.length_ms, now - last.began_ms)
