"""The directory of `--late-output`: a subdirectory per batch, written as a whole; a path here, or a URI that Spark can
write.

`_wmtop.json` in it names its run (Spark, pandas and DuckDB ignore names that begin with `_`).
"""

import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from ..system.errors import UsageError, first_line
from ..system.files import replace_file, sync_path
from .durable_state import unwritable

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import DataFrame, SparkSession

OPTION = "--late-output"
OWNER = "_wmtop.json"
_BATCH = re.compile(r"batch=(\d+)")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

_WRITING_FAILS = (28, 122, 13, 30)
"""ENOSPC, EDQUOT, EACCES, EROFS: system errors that appear in Java's messages."""


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


class LocalDirectory:
    """A directory on this machine, or on a file system that Spark's executors share with it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def claim(self, owner: str, *, own: bool, force: bool, keep_until: int | None) -> None:
        """Claim it for this run; UsageError if it is another run's, not empty or cannot be written.

        `own`: the run has used it before; batches after `keep_until` were not saved, and are removed. `force`: the late
        records of another run are removed.
        """
        try:
            names = sorted(os.listdir(self._path)) if self._path.exists() else []
            belongs = self._owner()
            _check_owner(str(self._path), names, belongs, owner, own=own, force=force)
            self._path.mkdir(parents=True, exist_ok=True)
            for name in names:
                if name.startswith("_batch=") or _is_obsolete(name, None if belongs != owner else keep_until):
                    shutil.rmtree(self._path / name)
            replace_file(self._path / OWNER, msgspec.json.encode(Owner(owner)), sync=True)
        except OSError as error:
            raise UsageError(
                f"{OPTION} {self._path}: {error.strerror or first_line(error)}; give a directory you may write"
            ) from None

    def write(self, rows: "DataFrame", batch: int) -> None:
        """Write a batch's rows, replacing existing ones; RunError if the directory cannot be written."""
        unfinished = self._path / f"_batch={batch}"
        _save(rows, f"file:{unfinished}", str(self._path))
        try:
            for name in os.listdir(unfinished):
                if name.endswith(".parquet") and not name.startswith((".", "_")):
                    sync_path(unfinished / name)
                else:
                    (unfinished / name).unlink()
            sync_path(unfinished)
            self.remove(batch)
            unfinished.rename(self._path / f"batch={batch}")
            sync_path(self._path)
        except OSError as error:
            raise unwritable(self._path, error) from error

    def remove(self, batch: int) -> None:
        """Remove a batch's rows."""
        path = self._path / f"batch={batch}"
        if path.exists():
            shutil.rmtree(path)

    def batches(self) -> list[int]:
        """The numbers of the existing batches."""
        names = os.listdir(self._path)
        return [int(batch[1]) for name in names if (batch := _BATCH.fullmatch(name)) is not None]

    def _owner(self) -> str | None:
        try:
            return msgspec.json.decode((self._path / OWNER).read_bytes(), type=Owner).id
        except (FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
            return None


class SparkDirectory:
    """A directory at a URI, through Hadoop's file systems; like `LocalDirectory`."""

    def __init__(self, uri: str, spark: "SparkSession") -> None:
        self._uri = uri.rstrip("/")
        self._spark = spark

    def claim(self, owner: str, *, own: bool, force: bool, keep_until: int | None) -> None:
        with _refused(self._uri):
            files = self._file_system()
            root = self._path()
            names = sorted(s.getPath().getName() for s in files.listStatus(root)) if files.exists(root) else []
            belongs = self._owner(files) if OWNER in names else None
            _check_owner(self._uri, names, belongs, owner, own=own, force=force)
            for name in names:
                if _is_obsolete(name, None if belongs != owner else keep_until):
                    files.delete(self._path(name), True)
            out = files.create(self._path(OWNER), True)
            out.write(bytearray(msgspec.json.encode(Owner(owner))))
            out.close()

    def write(self, rows: "DataFrame", batch: int) -> None:
        _save(rows, f"{self._uri}/batch={batch}", self._uri)

    def remove(self, batch: int) -> None:
        self._file_system().delete(self._path(f"batch={batch}"), True)

    def _path(self, name: str = "") -> Any:
        jvm: Any = self._spark._jvm  # pyright: ignore[reportPrivateUsage]
        return jvm.org.apache.hadoop.fs.Path(f"{self._uri}/{name}" if name else self._uri)

    def _file_system(self) -> Any:
        java: Any = self._spark._jsc  # pyright: ignore[reportPrivateUsage]
        return self._path().getFileSystem(java.hadoopConfiguration())

    def _owner(self, files: Any) -> str | None:
        jvm: Any = self._spark._jvm  # pyright: ignore[reportPrivateUsage]
        stream = files.open(self._path(OWNER))  # not through Spark, which ignores names that begin with _
        try:
            return msgspec.json.decode(str(jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")), type=Owner).id
        except msgspec.DecodeError:
            return None
        finally:
            stream.close()


LateDirectory = LocalDirectory | SparkDirectory


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


def _is_obsolete(name: str, keep_until: int | None) -> bool:
    """Whether it is the directory of a batch after `keep_until` (None: of any)."""
    batch = _BATCH.fullmatch(name)
    return batch is not None and (keep_until is None or int(batch[1]) > keep_until)


def _save(rows: "DataFrame", target: str, named: str) -> None:
    """Write `rows` as Parquet; RunError that names the directory on failure."""
    try:
        rows.write.mode("overwrite").option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(target)
    except Exception as error:
        for number in _WRITING_FAILS:
            if os.strerror(number) in str(error):
                raise unwritable(Path(named), OSError(number, os.strerror(number))) from error
        raise


@contextmanager
def _refused(uri: str) -> "Generator[None]":
    from py4j.protocol import Py4JError, Py4JJavaError  # pyright: ignore[reportMissingTypeStubs]

    try:
        yield
    except Py4JJavaError as error:
        reason = first_line(str(error.java_exception))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        raise UsageError(f"{OPTION} {uri}: {reason}; give a place that Spark can write to") from None
    except Py4JError as error:
        raise UsageError(f"{OPTION} {uri}: {first_line(error)}; give a place that Spark can write to") from None
