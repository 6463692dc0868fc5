"""Unread records of a source: a channel is quiet only when everything up to its end has been read."""

from msgspec import Struct


class Unread(Struct, frozen=True):
    """Records not yet read, as far as the source knows."""

    records: int | None
    """In all; None: it cannot be known now (the broker does not answer), so no channel may be called quiet."""
    by_channel: dict[str, int] | None = None
    """Where each channel has its own part of the source (a partition); None: an unread record may be any channel's."""
    held_back: frozenset[str] = frozenset()
    """Channels that balanced reading keeps waiting."""
    passing: int = 0
    """What the last batch took; no more than twice that is on its way and no backlog."""
    passing_by_channel: dict[str, int] = {}

    def of(self, channel: str) -> int | None:
        """How many of the channel's records are unread; None where that is not known."""
        return None if self.records is None or self.by_channel is None else self.by_channel.get(channel, 0)

    def may_be_of(self, channel: str) -> int | None:
        """How many unread records may be the channel's: its own, or all where the source does not separate them."""
        return self.records if self.by_channel is None else self.of(channel)

    def backlog(self, channel: str) -> int | None:
        """Unread records that delay the channel: its own, or all where the source does not separate them; 0 for few."""
        passing = self.passing if self.by_channel is None else self.passing_by_channel.get(channel, 0)
        unread = self.may_be_of(channel)
        return unread if unread is None or unread > 2 * passing else 0

    def not_quiet(self) -> list[str] | None:
        """The channels whose idle timers are stopped; None: all of them."""
        if self.records is None:
            return None
        if self.by_channel is None:
            return None if self.records else []
        return [channel for channel, records in self.by_channel.items() if records]
