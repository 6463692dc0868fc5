"""Unread records of a source: a channel is quiet only when everything up to its end has been read."""

from msgspec import Struct


class Unread(Struct, frozen=True):
    """Unread records, as far as the source reports them."""

    records: int | None
    """Unread records in total; None: not known now (the broker does not answer), so no channel may be called quiet."""
    by_channel: dict[str, int] | None = None
    """Unread records of channels that have their own part of the source (a partition); None: an unread record may be
    any channel's.
    """
    held_back: frozenset[str] = frozenset()
    """Channels that balanced reading keeps waiting."""
    passing: int = 0
    """Records of the last batch: up to twice as many unread ones are on their way and not a backlog."""
    passing_by_channel: dict[str, int] = {}

    def of(self, channel: str) -> int | None:
        """The channel's unread records; None: not known."""
        return None if self.records is None or self.by_channel is None else self.by_channel.get(channel, 0)

    def may_be_of(self, channel: str) -> int | None:
        """How many unread records may be the channel's: its own, or all if the source does not separate channels."""
        return self.records if self.by_channel is None else self.of(channel)

    def backlog(self, channel: str) -> int | None:
        """Unread records that delay the channel: its own, or all if the source does not separate channels; 0 if they
        are few.
        """
        passing = self.passing if self.by_channel is None else self.passing_by_channel.get(channel, 0)
        unread = self.may_be_of(channel)
        return unread if unread is None or unread > 2 * passing else 0

    def not_quiet(self) -> list[str] | None:
        """The channels whose idle timers are stopped; None: all."""
        if self.records is None:
            return None
        if self.by_channel is None:
            return None if self.records else []
        return [channel for channel, records in self.by_channel.items() if records]
