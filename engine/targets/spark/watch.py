"""An attached Spark query as a target: its checkpoint and state files, and its own reports."""

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from ...snapshot import Snapshot, SourceView, WindowsUnknown
from ...verdict.verdict import RecordedPast
from ...watermarks.settings import Settings
from .checkpoint import CheckpointFacts, CheckpointTap, check, is_checkpoint
from .facts import QueryFacts, Report, past_of
from .files import AnyPath, RemoteError, UnreadableError, VanishedError, names
from .open_windows import OpenWindows, OpenWindowsTap
from .operators import WindowShape, window_spec_of
from .plan import PlanFacts
from .query_snapshot import settings_of_query, snapshot_of_query
from .reports import JobReports, Reports
from .sources import offsets_of

if TYPE_CHECKING:  # load the Kafka client only if there is a broker, Arrow only if there is a store
    from ..topic.broker import BrokerTap
    from .store import Remote

_log = logging.getLogger("wmtop.store")
_log.addHandler(logging.NullHandler())
OUT_OF_REACH_S = 5.0
"""Time (s) that a store may fail before its query is called stale."""


class WindowsTap(Protocol):
    """Reads the open windows in a checkpoint's state."""

    def poll(self, facts: CheckpointFacts) -> tuple[OpenWindows, ...]:
        """The windows of every operator, after the last committed batch in `facts`."""
        ...

    def close(self) -> None:
        """Read no more."""
        ...


class QueryWatch:
    """A `Watched` query, found by its checkpoint or its `reports`: either leads to the other.

    `windows` makes what reads its open windows (None: they are not read); `broker` is asked for the event times of what
    it reads from Kafka. One of `checkpoint` and `reports` is given; `remote` is the store that they come from, if so.
    """

    def __init__(
        self,
        source: SourceView,
        *,
        checkpoint: AnyPath | None = None,
        reports: Reports | None = None,
        windows: Callable[[Any], WindowsTap] | None = OpenWindowsTap,
        broker: "BrokerTap | None" = None,
        remote: "Remote | None" = None,
    ) -> None:
        self.step = f"reading the {source.kind}"
        self._source = source
        self._path = checkpoint
        self._checkpoint: CheckpointTap | None = None
        self._reports: Reports = reports or JobReports()
        self._read_windows = windows
        self._windows: WindowsTap | None = None
        self._broker = broker
        self._remote = remote
        self._failing_since: float | None = None
        self._trouble: str | None = None
        self._last_windows: tuple[OpenWindows, ...] = ()
        self._shapes: dict[int, WindowShape] = {}
        self._last = CheckpointFacts()
        self._before: Snapshot | None = None

    @property
    def every_s(self) -> float:
        """Seconds between polls: a store is queried only as often as the query's batches make sense."""
        return 0.25 if self._remote is None else self._remote.every_s

    @property
    def settings(self) -> Settings:
        """Spark's rules, known before the first poll."""
        return settings_of_query()

    def describe(self) -> SourceView:
        """What was attached to."""
        return self._source

    def open(self) -> None:
        """UsageError if nothing can be read, or the broker lacks the query's topics."""
        if self._path is not None:
            if isinstance(self._path, Path):
                check(self._path)
            self._read_checkpoint_at(self._path)
        self._reports.open()
        if self._broker is not None:
            checkpoint, report = self._poll_both()
            facts = QueryFacts(checkpoint=checkpoint, report=report)
            self._broker.open(offsets_of(facts), _time_in_records(facts.plan))

    def poll(self) -> QueryFacts:
        """The present facts; if something has vanished since, its last facts with the trouble."""
        self._fetch()
        checkpoint, report = self._poll_both()
        windows = self._poll_windows(checkpoint)
        facts = QueryFacts(
            checkpoint=checkpoint, report=report, windows=windows, window=window_spec_of(windows or (), self._shapes)
        )
        if self._broker is None:
            return facts
        return replace(facts, topics=self._broker.poll(offsets_of(facts), _time_in_records(facts.plan)))

    def picture(self, name: str, facts: QueryFacts, now_ms: int) -> Snapshot:
        """The facts of one poll as they are at `now_ms` (epoch ms)."""
        self._before = snapshot_of_query(facts, name=name, source=self._source, now_ms=now_ms, before=self._before)
        return self._before

    def past(self, facts: QueryFacts, now_ms: int) -> RecordedPast:
        """The recorded past from its checkpoint, else its event log; call it after `picture`."""
        watermark_ms = None if self._before is None else self._before.level.watermark_ms
        return past_of(facts, watermark_ms, now_ms)

    def close(self) -> None:
        """Close the connection to the broker."""
        self._reports.close()
        if self._windows is not None:
            self._windows.close()
        if self._broker is not None:
            self._broker.close()
        if self._remote is not None:
            self._remote.close()

    def _poll_both(self) -> tuple[CheckpointFacts | None, Report | None]:
        """The facts of checkpoint and reports; either is searched for if the other names it."""
        checkpoint = self._poll_checkpoint()
        report = self._reports.poll(checkpoint.query_id if checkpoint is not None else None)
        place = report.checkpoint if report is not None else None
        if checkpoint is None and place is not None and is_checkpoint(Path(place)):
            self._read_checkpoint_at(Path(place))
            checkpoint = self._poll_checkpoint()
        return checkpoint, report

    def _poll_windows(self, checkpoint: CheckpointFacts | None) -> tuple[OpenWindows, ...] | None:
        if self._windows is None or checkpoint is None:
            return None
        try:
            self._last_windows = self._windows.poll(checkpoint)
        except RemoteError as error:
            reason = WindowsUnknown("unreadable", {"why": str(error)})
            self._last_windows = tuple(replace(operator, reason=reason) for operator in self._last_windows)
        return self._last_windows

    def _fetch(self) -> None:
        """Look for new files in the store."""
        if self._remote is None:
            return
        try:
            self._remote.refresh()
        except RemoteError as error:
            self._failed(error)
        else:
            self._trouble = self._failing_since = None

    def _failed(self, error: RemoteError) -> None:
        self._trouble = str(error)
        if self._failing_since is None:
            _log.warning("%s", error)
            self._failing_since = time.monotonic()

    @property
    def _is_out_of_reach(self) -> bool:
        return self._failing_since is not None and time.monotonic() - self._failing_since >= OUT_OF_REACH_S

    def _read_checkpoint_at(self, path: AnyPath) -> None:
        self._checkpoint = CheckpointTap(path)
        self._windows = None if self._read_windows is None else self._read_windows(path)

    def _poll_checkpoint(self) -> CheckpointFacts | None:
        if self._checkpoint is None:
            return None
        if self._trouble is None:
            try:
                return self._known_or_gone(self._checkpoint)
            except RemoteError as error:
                self._failed(error)
        return replace(self._last, trouble=self._trouble, out_of_reach=self._is_out_of_reach)

    def _known_or_gone(self, tap: CheckpointTap) -> CheckpointFacts:
        """The facts in the checkpoint, the last ones if it is gone."""
        checkpoint = tap.poll()
        if checkpoint.batch is None and self._last.batch is not None:
            place = tap.path.absolute() if isinstance(tap.path, Path) else tap.path
            try:
                names(place)
            except VanishedError:
                gone = f"{place} is gone: this is what was last there"
                return replace(self._last, trouble=gone, out_of_reach=True)
            except UnreadableError as error:
                return replace(self._last, trouble=str(error))
            none = f"{place} has no batch any more: this is what was last there"
            return replace(self._last, trouble=checkpoint.trouble or none)
        self._last = checkpoint
        return checkpoint


def _time_in_records(plan: PlanFacts | None) -> str | None:
    """The place of event time in Kafka's records by the plan; None if the plan does not show it, or shows several."""
    places = {node.record_time for node in plan.nodes} if plan is not None else set[str | None]()
    return places.pop() if len(places) == 1 else None
