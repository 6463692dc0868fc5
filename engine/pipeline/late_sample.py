"""A sample of the last late records, read back from `--late-output`, for the snapshot."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..core.snapshot import LateRecord
from .late_rows import ADDED, LATE_BY, LATE_CHANNEL, LATE_TIME, LATE_WATERMARK, LATE_WINDOW_END

MAX_IN_SAMPLE = 20
MAX_READ = 4_096
"""Rows of a batch that are read, at most, an equal share from each of its files."""
_POSITION = ("topic", "partition", "offset")


class LateSample:
    """The sample of a run whose late output is the directory `path`; `from_kafka`: with topic, partition, offset."""

    def __init__(self, path: Path, *, from_kafka: bool) -> None:
        self._path = path
        self._columns = [*ADDED, *(_POSITION if from_kafka else ())]
        self._records: list[LateRecord] | None = []

    @property
    def records(self) -> list[LateRecord] | None:
        """At most `MAX_IN_SAMPLE`, the newest batch first, in a batch the most late first; None: not readable."""
        return self._records

    def resume(self, batches: Sequence[int]) -> None:
        """Read the sample of a resumed run from its last batches; `batches` are their numbers."""
        self._records = []
        for batch in sorted(batches)[-MAX_IN_SAMPLE:]:  # a written batch has at least one record
            self.add(batch)

    def add(self, batch: int) -> None:
        """Add the records of a batch that was just written."""
        import pyarrow as pa

        self.drop(batch)
        try:
            new = self._read(batch)
        except (OSError, pa.ArrowException, KeyError):
            self._records = None
        else:
            self._records = [*new, *(self._records or [])][:MAX_IN_SAMPLE]

    def drop(self, batch: int) -> None:
        """Forget a batch's records: it runs again."""
        if self._records is not None:
            self._records = [record for record in self._records if record.batch != batch]

    def _read(self, batch: int) -> list[LateRecord]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        files = sorted((self._path / f"batch={batch}").glob("*.parquet"))
        parts: list[pa.RecordBatch] = []
        for file in files:
            left = -(-MAX_READ // len(files))
            with pq.ParquetFile(file) as parquet:
                opened: Any = parquet  # pyarrow.parquet is mostly untyped
                for part in opened.iter_batches(batch_size=left, columns=self._columns):
                    parts.append(part.slice(0, left))
                    left -= parts[-1].num_rows
                    if not left:
                        break
        if not parts:
            return []
        table: Any = pa.Table.from_batches(parts)
        order = [(LATE_BY, "descending"), (LATE_TIME, "ascending")]
        rows: list[dict[str, Any]] = table.sort_by(order).slice(0, MAX_IN_SAMPLE).to_pylist()
        return [
            LateRecord(
                batch=batch,
                channel=row[LATE_CHANNEL],
                time_ms=row[LATE_TIME],
                watermark_ms=row[LATE_WATERMARK],
                window_end_ms=row[LATE_WINDOW_END],
                late_by_ms=row[LATE_BY],
                **{name: row.get(name) for name in _POSITION},
            )
            for row in rows
        ]
