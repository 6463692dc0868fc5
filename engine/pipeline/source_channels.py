"""Passes a source's knowledge about its channels, besides their records, to the monitor."""

import json
from typing import Any

from ..core.firing import Firing
from ..core.monitor import Monitor
from ..core.unread import Unread
from .sources.base import Source


class SourceChannels:
    """Channels that appear and leave, that are quiet or only unread, and the reading position of each."""

    def __init__(self, source: Source, monitor: Monitor) -> None:
        self._source = source
        self._monitor = monitor
        self._timers_ms: int | None = None
        """Until when (processing time) channels were checked for being quiet or only unread."""

    def begin(self, now: int) -> None:
        """Begin at processing time `now` (ms), when the query starts."""
        self._timers_ms = now
        self.register(now)

    def register(self, now: int) -> None:
        """Register channels that the source knows before their first record."""
        known = self._source.known_channels
        if known is not None:
            self._monitor.add_channels(known.channels(), now)

    def keep_timers(self, now: int, unread: Unread | None) -> None:
        """Stop the idle timers of channels with unread records: such a channel is slow, not quiet."""
        since, self._timers_ms = self._timers_ms, now
        if unread is not None and since is not None and now > since:
            self._monitor.exclude(now - since, now, unread.not_quiet())

    def let_go(self, now: int | None, progress: dict[str, Any] | None) -> list[Firing]:
        """Remove or finish channels that are gone or read to their end; returns what the watermark made windows do.

        `progress` is Spark's last report, as its JSON.
        """
        leaving = self._source.leaving_channels
        if leaving is None:
            return []
        firings = self._monitor.remove_channels(leaving.gone_channels(), now)
        if not self._monitor.ended:
            firings += self._monitor.finish_channels(leaving.finished_channels(_latest_offsets(progress)), now)
        return firings

    def balance(self) -> None:
        """Pass a balancing source the event time of each channel that is not idle."""
        balancer = self._source.balancer
        if balancer is not None:
            balancer.balance(self._monitor.progress_of_active())


def _latest_offsets(progress: dict[str, Any] | None) -> list[str]:
    """The ends of the query's sources by Spark's report, as JSON."""
    sources: list[dict[str, Any]] = progress["sources"] if progress else []
    return [json.dumps(source["latestOffset"]) for source in sources]
