"""The dropped records themselves (`--late-output`): the directory that they are written to, and a sample of the last.

The directory has a subdirectory per batch, written as a whole; it is a path here, or a URI that Spark can write.
`_wmtop.json` in it names its run (Spark, pandas and DuckDB ignore names that begin with `_`).
"""

import os
import re
import secrets
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ..snapshot import LateRecord
from ..system.errors import RunError, UsageError, first_line
from ..system.files import replace_file, sync_path
from ..watermarks.settings import Settings
from ..watermarks.window_operator import LateRecords
from .durable_state import SavedState, unwritable
from .row_groups import ADDED, LATE_BY, LATE_TIME, late_rows
from .sources.base import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OPTION = "--late-output"
OWNER = "_wmtop.json"
_BATCH = re.compile(r"batch=(\d+)")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

_WRITING_FAILS = (28, 122, 13, 30)
"""ENOSPC, EDQUOT, EACCES, EROFS: system errors that appear in Java's messages."""

MAX_IN_SAMPLE = 20
_POSITION = ("topic", "partition", "offset")
_FILE = "late-output.json"


class LateSample:
    """The sample of a run whose late output is the directory `path`; `from_kafka`: with topic, partition, offset."""

    def __init__(self, path: Path, *, from_kafka: bool) -> None:
        self._path = path
        self._columns = [*ADDED, *(_POSITION if from_kafka else ())]
        self.records: list[LateRecord] | None = []
        """At most `MAX_IN_SAMPLE`, the newest batch first, in a batch the most late first; None: not readable."""

    def resume(self, names: Sequence[str]) -> None:
        """Read the sample of a resumed run from its last batches, given what its directory has."""
        self.records = []
        batches = [int(batch[1]) for name in names if (batch := _BATCH.fullmatch(name)) is not None]
        for batch in sorted(batches)[-MAX_IN_SAMPLE:]:  # a written batch has at least one record
            self.add(batch)

    def add(self, batch: int) -> None:
        """Add the records of a batch that was just written."""
        import pyarrow as pa

        self.drop(batch)
        try:
            new = self._read(batch)
        except (OSError, pa.ArrowException, KeyError):
            self.records = None
        else:
            self.records = [*new, *(self.records or [])][:MAX_IN_SAMPLE]

    def drop(self, batch: int) -> None:
        """Forget a batch's records: it runs again."""
        if self.records is not None:
            self.records = [record for record in self.records if record.batch != batch]

    def _read(self, batch: int) -> list[LateRecord]:
        import pyarrow.parquet as pq

        table: Any = pq.read_table(self._path / f"batch={batch}", columns=self._columns, partitioning=None)  # pyright: ignore
        order = [(LATE_BY, "descending"), (LATE_TIME, "ascending")]
        rows: list[dict[str, Any]] = table.sort_by(order).slice(0, MAX_IN_SAMPLE).to_pylist()
        return [
            LateRecord(batch=batch, **{name.removeprefix("wmtop_"): value for name, value in row.items()})
            for row in rows
        ]


class Claimed(Struct, frozen=True):
    """The state directory's entry about the run's late output."""

    directory: str
    id: str


class LateOutput:
    """The late output of one run; call `open` before anything is written."""

    def __init__(self, claimed: Claimed, saved: SavedState | None, *, force: bool, from_kafka: bool) -> None:
        """The claimed directory of a run that resumes from `saved`, or begins.

        UsageError if the directory cannot be this run's; one at a URI is checked only by `open`.
        """
        self.where = claimed.directory
        """The absolute path, or the URI."""
        self._id = claimed.id
        self._saved = saved
        self._force = force
        self._directory: LateDirectory | None = None
        self._written: int | None = None
        self._sample: LateSample | None = None
        if not is_uri(self.where):
            directory = LateDirectory(self.where)
            self._claim(directory)
            self._sample = LateSample(Path(self.where), from_kafka=from_kafka)
            self._sample.resume(directory.names())

    @property
    def marker(self) -> Path | None:
        """The local file that names the directory's run, which Spark's executors must see; None: it is at a URI."""
        return None if is_uri(self.where) else Path(self.where, OWNER)

    @property
    def sample(self) -> list[LateRecord] | None:
        """A sample of the last late records; None: not known (at a URI they are not read back)."""
        return None if self._sample is None else self._sample.records

    def open(self, spark: "SparkSession", source: Source, settings: Settings) -> None:
        """Do the remaining checks, once Spark runs (UsageError), and prepare `write`."""
        self._source = source
        self._settings = settings
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
        observed = Observation()
        kept = late_rows(rows, self._settings, late).observe(observed, F.count(F.lit(1)).alias("rows"))
        self._directory.write(self._source.whole(kept, list(ADDED)), number)
        written = int(observed.get["rows"])
        if written != late.records:
            raise RunError(
                f"batch {number} has {late.records} late records, but only {written} of them could be read again for "
                f"{OPTION}: the source has changed meanwhile; run the same command again"
            )
        if self._sample is not None:
            self._sample.add(number)

    def _claim(self, directory: "LateDirectory") -> None:
        last = None if self._saved is None else self._saved.monitor.batch
        directory.claim(self._id, own=self._saved is not None, force=self._force, keep_until=last)
        self._directory = directory


def late_output_of(
    asked: str | None, state: Path, saved: SavedState | None, *, force: bool, from_kafka: bool
) -> LateOutput | None:
    """The late output of a run that resumes from `saved`, or begins; UsageError if it does not fit that run."""
    try:
        claimed = msgspec.json.decode((state / _FILE).read_bytes(), type=Claimed)
    except (OSError, msgspec.DecodeError):
        claimed = None
    if asked is None:
        if saved is not None and claimed is not None:
            raise UsageError(
                f"this run writes its late records to {claimed.directory}; give {OPTION} {claimed.directory} again"
            )
        return None
    where = asked if is_uri(asked) else str(local_path(asked))
    if saved is not None and claimed is None:
        raise UsageError(
            f"{OPTION}: this run was started without it, and has not kept its late records so far; give it from "
            "the start, with another --state-dir"
        )
    if claimed is None or claimed.directory != where:
        if saved is not None and claimed is not None:
            raise UsageError(f"{OPTION} {asked}: this run writes its late records to {claimed.directory}; give that")
        claimed = Claimed(where, secrets.token_hex(16))
        try:
            replace_file(state / _FILE, msgspec.json.encode(claimed), sync=True)
        except OSError as error:
            raise unwritable(state / _FILE, error) from error
    return LateOutput(claimed, saved, force=force, from_kafka=from_kafka)


class Owner(Struct, frozen=True):
    """Which run a directory belongs to."""

    id: str
    format: int = 1


def is_uri(text: str) -> bool:
    """Whether it names a place that only Spark can access; `file:` is a path."""
    return _URI.match(text) is not None and not text.startswith("file:")


def local_path(text: str) -> Path:
    """The path of a directory on this machine."""
    return Path(re.sub(r"^file:(//)?(?=/)", "", text)).absolute()


class LateDirectory:
    """A directory with a subdirectory per batch, and a file that names its run: on this machine, or on a file system
    that Spark's executors share with it.
    """

    def __init__(self, where: str) -> None:
        self._where = where

    def claim(self, owner: str, *, own: bool, force: bool, keep_until: int | None) -> None:
        """Claim it for this run; UsageError if it is another run's, not empty or cannot be written.

        `own`: the run has used it before; batches after `keep_until` were not saved, and are removed. `force`: the late
        records of another run are removed.
        """
        with self._refusing():
            names = self.names()
            belongs = None
            if OWNER in names:
                with suppress(msgspec.DecodeError):
                    belongs = msgspec.json.decode(self._read_owner(), type=Owner).id
            _check_owner(self._where, names, belongs, owner, own=own, force=force)
            for name in names:
                batch = _BATCH.fullmatch(name)
                unsaved = batch is not None and (belongs != owner or keep_until is None or int(batch[1]) > keep_until)
                if unsaved or name.startswith("_batch="):
                    self._delete(name)
            self._write_owner(msgspec.json.encode(Owner(owner)))

    def remove(self, batch: int) -> None:
        """Remove a batch's rows."""
        self._delete(f"batch={batch}")

    def names(self) -> list[str]:
        """What it has; nothing if it does not exist."""
        return sorted(os.listdir(self._where)) if os.path.exists(self._where) else []

    def write(self, rows: "DataFrame", batch: int) -> None:
        """Write a batch's rows, replacing existing ones; RunError if the directory cannot be written."""
        path = Path(self._where)
        unfinished = path / f"_batch={batch}"
        _save(rows, f"file:{unfinished}", self._where)
        try:
            for name in os.listdir(unfinished):
                if name.endswith(".parquet") and not name.startswith((".", "_")):
                    sync_path(unfinished / name)
                else:
                    (unfinished / name).unlink()
            sync_path(unfinished)
            self.remove(batch)
            unfinished.rename(path / f"batch={batch}")
            sync_path(path)
        except OSError as error:
            raise unwritable(path, error) from error

    def _delete(self, name: str) -> None:
        if os.path.exists(path := os.path.join(self._where, name)):
            shutil.rmtree(path)

    def _read_owner(self) -> bytes | str:
        return Path(self._where, OWNER).read_bytes()

    def _write_owner(self, content: bytes) -> None:
        Path(self._where).mkdir(parents=True, exist_ok=True)
        replace_file(Path(self._where, OWNER), content, sync=True)

    @contextmanager
    def _refusing(self) -> Generator[None]:
        """UsageError for what the file system raises inside."""
        try:
            yield
        except OSError as error:
            raise UsageError(
                f"{OPTION} {self._where}: {error.strerror or first_line(error)}; give a directory you may write"
            ) from None


class SparkDirectory(LateDirectory):
    """A directory at a URI, through Hadoop's file systems."""

    def __init__(self, uri: str, spark: "SparkSession") -> None:
        super().__init__(uri.rstrip("/"))
        self._spark = spark

    def names(self) -> list[str]:
        files, root = self._files(), self._path("")
        return sorted(s.getPath().getName() for s in files.listStatus(root)) if files.exists(root) else []

    def write(self, rows: "DataFrame", batch: int) -> None:
        _save(rows, f"{self._where}/batch={batch}", self._where)

    def _path(self, name: str) -> Any:
        jvm: Any = self._spark._jvm  # pyright: ignore[reportPrivateUsage]
        return jvm.org.apache.hadoop.fs.Path(f"{self._where}/{name}" if name else self._where)

    def _files(self) -> Any:
        java: Any = self._spark._jsc  # pyright: ignore[reportPrivateUsage]
        return self._path("").getFileSystem(java.hadoopConfiguration())

    def _delete(self, name: str) -> None:
        self._files().delete(self._path(name), True)

    def _read_owner(self) -> str:
        jvm: Any = self._spark._jvm  # pyright: ignore[reportPrivateUsage]
        stream = self._files().open(self._path(OWNER))  # not through Spark, which ignores names that begin with _
        try:
            return str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()

    def _write_owner(self, content: bytes) -> None:
        out = self._files().create(self._path(OWNER), True)
        out.write(bytearray(content))
        out.close()

    @contextmanager
    def _refusing(self) -> Generator[None]:
        from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

        try:
            yield
        except Py4JError as error:
            reason = first_line(str(getattr(error, "java_exception", error)))
            raise UsageError(f"{OPTION} {self._where}: {reason}; give a place that Spark can write to") from None


def check_late_output(text: str, *, inputs: list[Path]) -> None:
    """UsageError if a local directory is a file, or inside the run's input; before anything starts."""
    if is_uri(text):
        return
    path = local_path(text)
    if path.exists() and not path.is_dir():
        raise UsageError(f"{OPTION} {text} is a file; give a directory")
    real = Path(os.path.realpath(path))
    for source in inputs:
        if Path(os.path.realpath(source)) in (real, *real.parents):
            raise UsageError(f"{OPTION} {text} is inside {source}, which the run reads; choose another directory")


def _check_owner(where: str, names: list[str], belongs: str | None, owner: str, *, own: bool, force: bool) -> None:
    """UsageError if a directory that holds `names` and `belongs` to a run may not be used by the run `owner`."""
    if own and belongs != owner:
        raise UsageError(
            f"{OPTION} {where} does not have the late records that this run has written; give the directory that it "
            "wrote to, or another --state-dir"
        )
    if belongs == owner or not names or (force and belongs is not None):
        return
    if belongs is not None:
        raise UsageError(f"{OPTION} {where} has the late records of another run; choose another directory or --force")
    raise UsageError(f"{OPTION} {where} is not empty; choose another directory")


def _save(rows: "DataFrame", target: str, named: str) -> None:
    """Write `rows` as Parquet; RunError that names the directory on failure."""
    try:
        rows.write.mode("overwrite").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(target)
    except Exception as error:
        for number in _WRITING_FAILS:
            if os.strerror(number) in str(error):
                raise unwritable(Path(named), OSError(number, os.strerror(number))) from error
        raise
