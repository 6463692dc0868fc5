"""How often channels turn idle: a cycle is the time from one idle status to the next, short where the status flaps."""

from msgspec import Struct


class IdleCycle(Struct):
    """When a channel last turned idle, and a running mean of its cycles (ms) in which the last one counts half."""

    began_ms: int
    length_ms: int | None = None


class IdleCycles(Struct):
    """The cycles of all channels that have ever been idle, by channel number."""

    of: dict[int, IdleCycle] = {}

    def turned_idle(self, channels: set[int], now: int) -> None:
        """These channels turn idle at processing time `now` (ms)."""
        for channel in channels:
            last = self.of.get(channel)
            if last is None:
                self.of[channel] = IdleCycle(now)
            else:
                took = now - last.began_ms
                mean = took if last.length_ms is None else (last.length_ms + took) // 2
                self.of[channel] = IdleCycle(now, mean)

    def length_ms(self, channel: int, now: int) -> int | None:
        """The mean cycle (ms), or the current one if that is longer already; None before the second cycle."""
        last = self.of.get(channel)
        if last is None or last.length_ms is None:
            return None
        return max(last.length_ms, now - last.began_ms)

    def forget(self, channel: int) -> None:
        """The channel was removed."""
        self.of.pop(channel, None)
