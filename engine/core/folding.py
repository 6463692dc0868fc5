"""Channels beyond `--max-channels` share one channel, so that state and snapshots stay bounded."""

from collections.abc import Set
from hashlib import blake2b

from msgspec import Struct
from msgspec.structs import replace

from .observation import BatchObservation, Group

OTHER = "other"
MOST_COUNTED = 100_000
"""Folded channels that are counted exactly, at most; beyond it the count is a lower bound."""


class Folded(Struct, frozen=True):
    """The channels beyond `--max-channels`, which share the channel `into`, and their records."""

    into: str
    channels: int
    at_least: bool
    """There are more: `channels` is a lower bound."""
    records: int


class TooManyChannelsError(Exception):
    """A strategy that needs the order of records cannot fold channels."""


class FoldedChannels(Struct, dict=True):
    """The channels folded into `other`, as 8-byte digests of their names."""

    digests: set[int] = set()
    at_least: bool = False
    records: int = 0

    def __post_init__(self) -> None:
        self._seen: set[str] = set()

    def fold(self, observation: BatchObservation, names: set[str]) -> BatchObservation:
        """The observation with the groups of these channels moved to `other`; counts the channels.

        TooManyChannelsError if the generator needs the records in order.
        """
        if not names:
            return observation
        if observation.sequences:
            raise TooManyChannelsError(
                "there are more channels than --max-channels, and strategies that go by the order of records "
                "(smoothed, custom) cannot fold channels; give a higher --max-channels or a coarser --channel"
            )
        self._count(names)
        self.records += sum(g.records for g in observation.groups if g.channel in names)
        sample = observation.sample
        return replace(
            observation,
            groups=_renamed(observation.groups, names),
            sample=None if sample is None else _renamed(sample, names),
            behind=_merged(observation.behind, names),
        )

    def view(self) -> Folded | None:
        """The folded channels as a snapshot shows them; None: no channel is folded."""
        return Folded(OTHER, len(self.digests), self.at_least, self.records) if self.digests else None

    def _count(self, names: set[str]) -> None:
        for name in sorted(names - self._seen):
            if len(self.digests) >= MOST_COUNTED:
                self.at_least = self.at_least or _digest(name) not in self.digests
                if self.at_least:
                    return
                continue
            self.digests.add(_digest(name))
            self._seen.add(name)


def beyond_limit(names: set[str], known: Set[str], limit: int) -> set[str]:
    """The channels that exceed the limit beside the known ones: new channels, in the order of their names."""
    new = names - known - {OTHER}
    room = max(0, limit - len(known) + (OTHER in known))
    return set() if len(new) <= room else set(sorted(new)[room:])


def _renamed(groups: list[Group], names: set[str]) -> list[Group]:
    return [replace(group, channel=OTHER) if group.channel in names else group for group in groups]


def _merged(behind: dict[str, dict[int, int]], names: set[str]) -> dict[str, dict[int, int]]:
    merged: dict[str, dict[int, int]] = {}
    for channel, buckets in behind.items():
        counts = merged.setdefault(OTHER if channel in names else channel, {})
        for bucket, records in buckets.items():
            counts[bucket] = counts.get(bucket, 0) + records
    return merged


def _digest(name: str) -> int:
    return int.from_bytes(blake2b(name.encode(errors="surrogatepass"), digest_size=8).digest())
