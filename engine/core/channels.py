"""The channels of a run by number, and which number a name has now (semantics section 6)."""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from .observation import Sequence
from .times import MIN
from .watermarks import BoundedWatermarks, Generator, SilentWatermarks, absorb

Left = Literal["finished", "removed"]


class Channel(Struct, gc=False):
    """A channel: its generator, and when it last had a record (processing time, ms)."""

    name: str
    generator: Generator
    max_event_ms: int | None = None
    last_record_ms: int | None = None
    added_ms: int = 0
    longest_quiet_ms: int | None = None
    left: Left | None = None
    """Why the channel sends nothing more; a removed channel only keeps its number."""

    def record(self, event_ms: int, now: int) -> bool:
        """Record the greatest event time of a batch (ms); returns whether it is the channel's greatest so far."""
        last = self.last_record_ms
        if last is not None:
            quiet, longest = now - last, self.longest_quiet_ms
            if longest is None or quiet > longest:
                self.longest_quiet_ms = quiet if quiet > 0 else 0
        self.last_record_ms = now
        if self.max_event_ms is not None and event_ms <= self.max_event_ms:
            return False
        self.max_event_ms = event_ms
        return True


def absorb_all(
    channels: list[Channel],
    numbers: Mapping[str, int],
    greatest: Mapping[str, tuple[int, int | None]],
    sequences: Mapping[str, Sequence],
    now: int,
) -> tuple[dict[int, int], bool]:
    """Pass a batch's records to the channels at processing time `now` (ms).

    `greatest` is the result of `greatest_times`; `numbers` are the numbers of its names. Returns by number what each
    channel emitted at once (ms, `MIN`: nothing), and whether any greatest time has grown.
    """
    sent: dict[int, int] = {}
    advanced = False
    for name, (event_ms, emitted_ms) in greatest.items():
        number = numbers[name]
        channel = channels[number]
        generator = channel.generator
        if type(generator) is BoundedWatermarks:  # the usual type, inlined for speed
            if event_ms > generator.max_ms:
                generator.max_ms = event_ms
            sent[number] = MIN
        else:
            emitted = absorb(generator, event_ms, emitted_ms, sequences.get(name))
            sent[number] = MIN if emitted is None else emitted
        advanced = channel.record(event_ms, now) or advanced
    return sent, advanced


class Registry:
    """Names and numbers of the channels; the channels themselves are in the monitor's list, which is saved."""

    def __init__(self, channels: list[Channel]) -> None:
        self._channels = channels
        self._numbers = {c.name: number for number, c in enumerate(channels) if c.left != "removed"}

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def number(self, name: str) -> int:
        """The number of a known channel that is not removed."""
        return self._numbers[name]

    def known(self, names: Iterable[str]) -> set[int]:
        """The numbers of the known channels that are not removed."""
        return {self._numbers[name] for name in names if name in self._numbers}

    def taking_part(self, names: Iterable[str]) -> dict[str, int]:
        """The numbers of the known channels that may still send records."""
        numbers, channels = self._numbers, self._channels
        return {
            name: number
            for name in names
            if (number := numbers.get(name)) is not None and channels[number].left is None
        }

    @property
    def unfinished(self) -> list[int]:
        """The numbers of the channels that may still send records."""
        return [number for number, channel in enumerate(self._channels) if channel.left is None]

    def add(self, channel: Channel) -> int:
        """Append a channel, which now owns its name; returns its number."""
        number = self._numbers[channel.name] = len(self._channels)
        self._channels.append(channel)
        return number

    def leave(self, number: int, left: Left) -> None:
        """Mark a channel that sends nothing more; a removed channel gives up its name."""
        channel = self._channels[number]
        channel.left = left
        if left == "removed":
            del self._numbers[channel.name]
            channel.generator = SilentWatermarks()
