"""Additional passes over a batch's records: keep the late ones, explain them.

Both need the rows again; without `--explain` only batches with late records are read a second time.
"""

from collections.abc import Generator
from contextlib import contextmanager

from msgspec.structs import replace

from ..core.explain import Explain
from ..core.late_records import late_records
from ..core.monitor import Monitor
from ..core.observation import BatchObservation
from ..errors import UsageError
from .groups import Levels
from .late_output import LateOutput
from .observer import Observer
from .sources.capabilities import Batch


class RecordPasses:
    """The additional passes of one run."""

    def __init__(self, monitor: Monitor, output: LateOutput | None, observer: Observer) -> None:
        self._monitor = monitor
        self._output = output
        self._observer = observer

    @contextmanager
    def read_once(self, batch: Batch) -> Generator[Batch]:
        """The batch, cached by Spark while it is read several times."""
        if self._monitor.explain is None or self._observer.rereads:
            yield batch
            return
        kept = batch.frame.persist()
        try:
            yield batch._replace(frame=kept)
        finally:
            kept.unpersist()

    def run(self, batch: Batch, observation: BatchObservation, levels: Levels) -> BatchObservation:
        """Write the batch's late records, and add the values that explain them, before anything is applied."""
        if self._output is None and self._monitor.explain is None:
            return observation
        late = late_records(self._monitor.operator.windows, observation.groups, levels.level)
        if self._output is not None:
            rows = self._observer.rows(batch) if late.records else batch.frame
            self._output.write(rows, observation.batch, late)
        if self._monitor.explain is None:
            return observation
        values = self._observer.explained(batch, late, len(self._monitor.explain.columns))
        return replace(observation, values=values, late=late.records)


def explained_from(monitor: Monitor, columns: tuple[str, ...], *, resumed: bool) -> Explain | None:
    """The counts of a run's `--explain`; UsageError if a resumed run was started with other columns."""
    before = () if monitor.explain is None else tuple(monitor.explain.columns)
    if resumed and before != columns:
        raise UsageError(
            f"--explain: this run was started with {','.join(before) or 'none'}, not {','.join(columns) or 'none'}; "
            "give the same columns, or another --state-dir"
        )
    return monitor.explain if resumed else Explain.of(columns) if columns else None
