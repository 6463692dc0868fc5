"""The channels of a run by number, and which number a name has now (semantics section 6)."""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from .observation import GreatestTimes, Sequence
from .times import MIN
from .watermarks import BoundedWatermarks, Generator, SilentWatermarks, absorb

Departure = Literal["finished", "removed"]


class Channel(Struct, gc=False, omit_defaults=True):
    """A channel: its generator, and when it last had a record (processing time, ms)."""

    name: str
    generator: Generator
    max_event_ms: int | None = None
    last_record_ms: int | None = None
    added_ms: int = 0
    longest_quiet_ms: int | None = None
    left: Departure | None = None
    """Why the channel sends nothing more; a removed channel only keeps its number."""


def absorb_all(
    channels: list[Channel],
    numbers: Mapping[str, int],
    greatest: GreatestTimes,
    sequences: Mapping[str, Sequence],
    now: int,
) -> tuple[dict[int, int], bool]:
    """Pass a batch's records to the channels at processing time `now` (ms); `numbers` has the numbers of their names.

    Returns by number what each channel emitted at once (ms, `MIN`: nothing), and whether any greatest time has grown.
    """
    sent: dict[int, int] = {}
    emitted_at_once = greatest.emitted
    advanced = False
    for name, event_ms in greatest.events.items():  # for each channel of each batch: nothing is called for speed
        number = numbers[name]
        channel = channels[number]
        generator = channel.generator
        if type(generator) is BoundedWatermarks:
            if event_ms > generator.max_ms:
                generator.max_ms = event_ms
            sent[number] = MIN
        else:
            emitted = absorb(generator, event_ms, emitted_at_once.get(name), sequences.get(name))
            sent[number] = MIN if emitted is None else emitted
        last = channel.last_record_ms
        if last is not None:
            quiet, longest = now - last, channel.longest_quiet_ms
            if longest is None or quiet > longest:
                channel.longest_quiet_ms = quiet if quiet > 0 else 0
        channel.last_record_ms = now
        known_ms = channel.max_event_ms
        if known_ms is None or event_ms > known_ms:
            channel.max_event_ms = event_ms
            advanced = True
    return sent, advanced


def emit_all(channels: list[Channel], sent: Mapping[int, int], *, periodic: bool) -> dict[int, int]:
    """The watermarks (ms) that the channels in `sent` emit, in order: what they sent at once (`MIN`: nothing) or,
    with `periodic`, what their generators emit now if that is greater.
    """
    watermarks: dict[int, int] = {}
    for number in sorted(sent):
        watermark = sent[number]
        if periodic:
            generator = channels[number].generator
            if type(generator) is BoundedWatermarks:  # inlined, as above
                emitted = generator.max_ms
                if not generator.legacy and emitted != MIN:
                    emitted -= 1
            else:
                emitted = generator.on_periodic_emit()
            if emitted is not None and emitted > watermark:
                watermark = emitted
        if watermark != MIN:
            watermarks[number] = watermark
    return watermarks


class Registry:
    """Names and numbers of the channels; the channels themselves are in the monitor's list, which is saved."""

    def __init__(self, channels: list[Channel]) -> None:
        self._channels = channels
        self._numbers = {c.name: number for number, c in enumerate(channels) if c.left != "removed"}
        self._unfinished = {name: number for name, number in self._numbers.items() if channels[number].left is None}

    def __contains__(self, name: str) -> bool:
        return name in self._numbers

    def number(self, name: str) -> int:
        """The number of a known channel that is not removed."""
        return self._numbers[name]

    def known(self, names: Iterable[str]) -> set[int]:
        """The numbers of the known channels that are not removed."""
        return {self._numbers[name] for name in names if name in self._numbers}

    @property
    def unfinished(self) -> Mapping[str, int]:
        """The channels that may still send records: their numbers by name, in order. It changes with the channels."""
        return self._unfinished

    def add(self, channel: Channel) -> int:
        """Append a channel, which now owns its name; returns its number."""
        number = self._numbers[channel.name] = self._unfinished[channel.name] = len(self._channels)
        self._channels.append(channel)
        return number

    def leave(self, number: int, left: Departure) -> None:
        """Mark a channel that sends nothing more; a removed channel gives up its name."""
        channel = self._channels[number]
        if channel.left is None:
            del self._unfinished[channel.name]
        channel.left = left
        if left == "removed":
            del self._numbers[channel.name]
            channel.generator = SilentWatermarks()
