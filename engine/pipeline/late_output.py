"""`--late-output`: the dropped records of each batch, durable before the batch is.

A batch's records are written before it is applied and its state saved, so a batch that runs again after a crash
replaces the same records; records that a crash left of later batches are removed at the start.
"""

import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from ..core.late_records import LateRecords
from ..core.snapshot import LateRecord
from ..durable_file import replace_file
from ..errors import RunError, UsageError
from .durable import SavedState, unwritable
from .late_directory import OPTION, OWNER, LateDirectory, LocalDirectory, SparkDirectory, is_uri, local_path
from .late_rows import ADDED, LateRows
from .late_sample import LateSample
from .sources.base import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE = "late-output.json"


class Claimed(Struct, frozen=True):
    """The state directory's entry about the run's late output."""

    directory: str
    id: str


class LateOutput:
    """The late output of one run; call `open` before anything is written."""

    def __init__(
        self, asked: str, state: Path, *, resumed: bool, last_batch: int | None, force: bool, from_kafka: bool
    ) -> None:
        """`state` is the state directory, `last_batch` its last batch.

        UsageError if the directory cannot be this run's; one at a URI is checked only by `open`.
        """
        self._asked = asked
        self.where = asked if is_uri(asked) else str(local_path(asked))
        """The absolute path, or the URI."""
        self._last_batch = last_batch
        self._force = force
        self._own = resumed
        claimed = claimed_by(state)
        if resumed and claimed is None:
            raise UsageError(
                f"{OPTION}: this run was started without it, and has not kept its late records so far; give it from "
                "the start, with another --state-dir"
            )
        if resumed and claimed is not None and claimed.directory != self.where:
            raise UsageError(f"{OPTION} {asked}: this run writes its late records to {claimed.directory}; give that")
        if claimed is None or claimed.directory != self.where:
            claimed = Claimed(self.where, secrets.token_hex(16))
            try:
                replace_file(state / _FILE, msgspec.json.encode(claimed), sync=True)
            except OSError as error:
                raise unwritable(state / _FILE, error) from error
        self._id = claimed.id
        self._directory: LateDirectory | None = None
        self._written: int | None = None
        self._sample: LateSample | None = None
        if not is_uri(asked):
            directory = LocalDirectory(local_path(asked))
            self._claim(directory)
            self._sample = LateSample(local_path(asked), from_kafka=from_kafka)
            self._sample.resume(directory.batches())

    @property
    def marker(self) -> Path | None:
        """The local file that names the directory's run, which Spark's executors must see; None: it is at a URI."""
        return None if is_uri(self._asked) else Path(self.where, OWNER)

    @property
    def sample(self) -> list[LateRecord] | None:
        """A sample of the last late records; None: not known (at a URI they are not read back)."""
        return None if self._sample is None else self._sample.records

    def open(self, spark: "SparkSession", source: Source, rows: LateRows) -> None:
        """Do the remaining checks, once Spark runs (UsageError), and prepare `write`."""
        self._source = source
        self._rows = rows
        if self._directory is None:
            self._claim(SparkDirectory(self.where, spark))

    def write(self, rows: "DataFrame", number: int, late: LateRecords) -> None:
        """Keep the `late` records of batch `number`, whose records are `rows`; costs nothing without late records.

        RunError if they cannot be written, or if the source has changed and they could not be read again.
        """
        assert self._directory is not None
        if not late.records:
            if number == self._written:  # the batch runs again, and its input has changed
                self._directory.remove(number)
                if self._sample is not None:
                    self._sample.drop(number)
            return
        from pyspark.sql import Observation
        from pyspark.sql import functions as F

        self._written = number
        seen = Observation()
        kept = self._rows.of(rows, late).observe(seen, F.count(F.lit(1)).alias("rows"))
        self._directory.write(self._source.whole(kept, list(ADDED)), number)
        written = int(seen.get["rows"])
        if written != late.records:
            raise RunError(
                f"batch {number} has {late.records} late records, but only {written} of them could be read again for "
                f"{OPTION}: the source has changed meanwhile; run the same command again"
            )
        if self._sample is not None:
            self._sample.add(number)

    def _claim(self, directory: LateDirectory) -> None:
        directory.claim(self._id, own=self._own, force=self._force, keep_until=self._last_batch)
        self._directory = directory


def claimed_by(state: Path) -> Claimed | None:
    """The late output of the run with that state directory; None: it has none."""
    try:
        return msgspec.json.decode((state / _FILE).read_bytes(), type=Claimed)
    except (OSError, msgspec.DecodeError):
        return None


def late_output_of(
    asked: str | None, state: Path, saved: SavedState | None, *, force: bool, from_kafka: bool
) -> LateOutput | None:
    """The late output of a run that resumes from `saved`, or begins; UsageError if it does not fit that run."""
    if asked is not None:
        last = None if saved is None else saved.monitor.batch
        return LateOutput(asked, state, resumed=saved is not None, last_batch=last, force=force, from_kafka=from_kafka)
    claimed = claimed_by(state)
    if saved is not None and claimed is not None:
        raise UsageError(
            f"this run writes its late records to {claimed.directory}; give {OPTION} {claimed.directory} again"
        )
    return None
