"""Somebody's Spark query, looked at through its checkpoint and state files."""

from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ..core.settings import Settings, WindowSpec
from ..core.snapshot import Snapshot, SourceView
from .checkpoint import CheckpointFacts, CheckpointTap, check
from .merge import QueryFacts, snapshot_of_query
from .open_windows import OpenWindows, OpenWindowsTap
from .window_shape import WindowShape

if TYPE_CHECKING:  # the Kafka client is loaded where there is a broker to ask
    from .broker import BrokerTap


class QueryWatch:
    """A `Watched` query; with `state` its open windows are read from the files of its state, too.

    `broker` is asked for the event times of what it reads from Kafka.
    """

    every_s = 0.25
    step = "reading the checkpoint"

    def __init__(self, path: Path, *, state: bool = True, broker: "BrokerTap | None" = None) -> None:
        self._path = path
        self._checkpoint = CheckpointTap(path)
        self._windows = OpenWindowsTap(path) if state else None
        self._broker = broker
        self._shapes: dict[int, WindowShape] = {}
        self._last = CheckpointFacts()
        self._before: Snapshot | None = None

    @property
    def settings(self) -> Settings:
        """What is known before the first look: Spark's rules."""
        return snapshot_of_query(
            QueryFacts(checkpoint=CheckpointFacts()), name="", source=self.describe(), now_ms=0
        ).settings

    def describe(self) -> SourceView:
        """The checkpoint."""
        return SourceView(kind="checkpoint", description=str(self._path.absolute()))

    def open(self) -> None:
        """UsageError where there is no checkpoint, or the broker has not what the query reads."""
        check(self._path)
        if self._broker is not None:
            self._broker.open(self._checkpoint.poll())

    def poll(self) -> QueryFacts:
        """What stands there now; what has vanished since is told as it was, with the trouble."""
        checkpoint = self._checkpoint.poll()
        if checkpoint.batch is None and self._last.batch is not None:
            trouble = checkpoint.trouble or f"{self._path.absolute()} is gone: this is what was last there"
            checkpoint = replace(self._last, trouble=trouble)
        else:
            self._last = checkpoint
        windows = None if self._windows is None else self._windows.poll(checkpoint)
        return QueryFacts(
            checkpoint=checkpoint,
            windows=windows,
            window=self._window(windows or ()),
            topics=None if self._broker is None else self._broker.poll(checkpoint),
        )

    def picture(self, name: str, facts: QueryFacts, now_ms: int) -> Snapshot:
        """The facts of one poll as they are at `now_ms` (epoch ms)."""
        self._before = snapshot_of_query(facts, name=name, source=self.describe(), now_ms=now_ms, before=self._before)
        return self._before

    def close(self) -> None:
        """Hang up on the broker."""
        if self._broker is not None:
            self._broker.close()

    def _window(self, found: tuple[OpenWindows, ...]) -> WindowSpec | None:
        """How the windows are made, where all operators agree."""
        specs: set[WindowSpec] = set()
        for operator in found:
            shape = self._shapes.setdefault(operator.operator, WindowShape())
            spec = shape.see((window.start_ms, window.end_ms) for window in operator.windows)
            if spec is not None:
                specs.add(spec)
        return specs.pop() if len(specs) == 1 else None
