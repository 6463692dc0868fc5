"""What a source knows about its channels beyond their records, taken over into the monitor."""

import json
from typing import Any

from ..core.firing import Firing
from ..core.monitor import Monitor
from ..core.unread import Unread
from .sources.base import Source


class SourceChannels:
    """Channels that come and go, that are quiet or only unread, and how far each has been read."""

    def __init__(self, source: Source, monitor: Monitor) -> None:
        self._source = source
        self._monitor = monitor
        self._timers_ms: int | None = None
        """Until when (processing time) channels were checked for being quiet or only unread."""

    def begin(self, now: int) -> None:
        """The query starts at this processing time (ms)."""
        self._timers_ms = now
        self.register(now)

    def register(self, now: int) -> None:
        """Channels that the source knows before their first record."""
        known = self._source.known_channels
        if known is not None:
            self._monitor.add_channels(known.channels(), now)

    def keep_timers(self, now: int, unread: Unread | None) -> None:
        """A channel with unread records is slow, not quiet: that time does not count towards its idle timeout."""
        since, self._timers_ms = self._timers_ms, now
        if unread is not None and since is not None and now > since:
            self._monitor.exclude(now - since, now, unread.not_quiet())

    def let_go(self, now: int | None, progress: dict[str, Any] | None) -> list[Firing]:
        """Channels that the source no longer has, or has read to their end; what the watermark made windows do.

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
        """Let a source that balances know how far each channel that is not idle has come."""
        balancer = self._source.balancer
        if balancer is not None:
            balancer.balance(self._monitor.progress_of_active())


def _latest_offsets(progress: dict[str, Any] | None) -> list[str]:
    """Where Spark's report says that each source of the query ends, as JSON."""
    sources: list[dict[str, Any]] = progress["sources"] if progress else []
    return [json.dumps(source["latestOffset"]) for source in sources]
