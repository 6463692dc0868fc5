"""The channels of a run by number, and which number a name has now (semantics section 6)."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

from .watermarks import Generator, SilentWatermarks

Left = Literal["finished", "removed"]


class Channel(Struct):
    """A channel: its generator, and when it last had a record (processing time, ms)."""

    name: str
    generator: Generator
    max_event_ms: int | None = None
    last_record_ms: int | None = None
    added_ms: int = 0
    longest_quiet_ms: int | None = None
    left: Left | None = None
    """It sends nothing more; a removed one only keeps its number."""

    def record(self, event_ms: int, now: int) -> bool:
        """Note a batch's greatest event time; whether it is the channel's greatest so far."""
        if self.last_record_ms is not None:
            self.longest_quiet_ms = max(self.longest_quiet_ms or 0, now - self.last_record_ms)
        self.last_record_ms = now
        if self.max_event_ms is not None and event_ms <= self.max_event_ms:
            return False
        self.max_event_ms = event_ms
        return True


class Registry:
    """Names and numbers of channels that are kept elsewhere: in the monitor's list, which is saved."""

    def __init__(self, channels: list[Channel]) -> None:
        self._channels = channels
        self._numbers = {c.name: number for number, c in enumerate(channels) if c.left != "removed"}

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def number(self, name: str) -> int:
        """The number of a channel that is known and not removed."""
        return self._numbers[name]

    def known(self, names: Iterable[str]) -> set[int]:
        """The numbers of those that are known and not removed."""
        return {self._numbers[name] for name in names if name in self._numbers}

    def takes_part(self, name: str) -> bool:
        """Whether the channel is known and may still send something."""
        number = self._numbers.get(name)
        return number is not None and self._channels[number].left is None

    @property
    def unfinished(self) -> list[int]:
        """The numbers of the channels that may still send something."""
        return [number for number, channel in enumerate(self._channels) if channel.left is None]

    def add(self, channel: Channel) -> int:
        """Append a channel, which from now on has its name; its number."""
        number = self._numbers[channel.name] = len(self._channels)
        self._channels.append(channel)
        return number

    def leave(self, number: int, left: Left) -> None:
        """The channel sends nothing more; removed, its name is free."""
        channel = self._channels[number]
        channel.left = left
        if left == "removed":
            del self._numbers[channel.name]
            channel.generator = SilentWatermarks()
