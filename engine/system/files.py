"""Files of our own: replaced in one step, locked by the kernel, and never written over a user's by mistake."""

import fcntl
import os
import shutil
import tempfile
import weakref
from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import combinations
from pathlib import Path
from typing import IO, Literal

import msgspec

from .errors import UsageError


def replace_file(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Make `content` the content of `path`; with `sync` it survives a power failure. OSError on failure.

    The new content is first written to `<path>.tmp`, which is removed on failure.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    if sync:
        sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Sync a file's content, or a directory's list of files, so that it survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def lock_file(file: int | IO[bytes] | IO[str], *, shared: bool = False) -> None:
    """Lock an open file; waits until no other process holds the lock. OSError if the file system has no locks."""
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock_file(file: int | IO[bytes] | IO[str], *, shared: bool = False) -> bool:
    """Lock an open file if no other process has; returns whether it is locked now. OSError as in `lock_file`."""
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_small(path: Path, limit: int = 1 << 20) -> bytes:
    """The content of a regular file; OSError, which names the bound, for another one or more than `limit` bytes."""
    if path.exists() and not path.is_file():
        raise OSError(0, "it is not a regular file")
    with path.open("rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(0, f"it has more than {limit >> 20} MB")
    return data


_TEMPORARY = ".wmtop-temporary"
"""The file by which a directory that a killed process left is known: a user's own of a similar name stays."""


class PrivateDirectory:
    """A temporary directory that only this user may open (mode 0700), held by a lock until `remove`.

    It is in `parent` (None: where temporary files are). First, those of wmtop (also of another `prefix`) whose
    processes ended without doing so are removed. OSError if none can be made.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        parent = Path(tempfile.gettempdir()) if parent is None else parent
        for left in {*parent.glob(f"{prefix}*"), *parent.glob("wmtop-*")}:
            with suppress(OSError):  # another user's, or removed at this moment
                self._remove_left(left)
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        held = os.open(self.path, os.O_RDONLY)
        self._remove = weakref.finalize(self, _remove_held, self.path, held)  # at the latest when the process ends
        with suppress(OSError):  # a file system without locks, where none is ever removed as left
            lock_file(held)
        (self.path / _TEMPORARY).touch()  # only now: another process removes one that has it and is not locked

    @staticmethod
    def _remove_left(path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            is_ours = os.fstat(descriptor).st_uid == os.geteuid() and (path / _TEMPORARY).exists()
            if is_ours and try_lock_file(descriptor):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(descriptor)

    def remove(self) -> None:
        """Remove the directory and all that is in it; does nothing the second time."""
        self._remove()

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()


def _remove_held(path: Path, held: int) -> None:
    shutil.rmtree(path, ignore_errors=True)
    os.close(held)


Existing = Literal["refuse", "replace", "continue"]
"""What to do with an output file that already exists."""


def existing(path: Path, *, force: bool, own: Collection[Path] = ()) -> Existing:
    """What to do if `path` exists: continue a file of this run (`own`), replace it with `force`, else refuse."""
    if is_own(path, own):
        return "continue"
    return "replace" if force else "refuse"


def check_outputs(
    outputs: Mapping[str, Path | None], *, inputs: Sequence[Path] = (), force: bool = False, own: Collection[Path] = ()
) -> None:
    """Check every output (by its option) before the command starts; None: the option was not given.

    UsageError if an output exists and neither `force` is given nor the file is this run's `own`, if it is not a
    regular file, if two outputs are one file, or if it is one of the `inputs` or inside one of them (also through
    links, and also with `force`).
    """
    given = {option: path for option, path in outputs.items() if path is not None}
    for (option, path), (other_option, other) in combinations(given.items(), 2):
        if _same(path, other):
            raise UsageError(
                f"{option} and {other_option} are the same file ({path}); choose another file for one", code="same_file"
            )
    for option, path in given.items():
        for source in inputs:
            if _is_input(path, source):
                where = "is inside the input directory" if source.is_dir() else "would overwrite the input"
                raise UsageError(f"{option} {path} {where} {source}; choose another file", code="input")
        check_new(path, option, force=force or is_own(path, own))


def check_new(path: Path, option: str, *, force: bool = False) -> None:
    """UsageError if `path` exists and `force` is not given, or if it is not a regular file."""
    if not os.path.lexists(path):
        return
    if path.exists() and not path.is_file():
        raise UsageError(f"{option} {path} is not a regular file; choose another file", code="no_file")
    if not force:
        raise UsageError(f"{option} {path} already exists; choose another file or pass --force", code="exists")


def create(path: Path, option: str, *, force: bool = False) -> IO[bytes]:
    """Open `path` for writing, empty; UsageError as `check_new`, also if it appeared since that check."""
    check_new(path, option, force=force)
    try:
        return path.open("w+b" if force else "x+b")
    except OSError as error:
        check_new(path, option, force=force)
        raise UsageError(f"{option}: cannot write {path}: {error.strerror or error}", code="unwritable") from None


@contextmanager
def written_whole(path: Path, option: str, *, force: bool = False) -> Generator[Path]:
    """A new file beside `path`, which becomes `path` at the end, so that a killed process leaves no part of it there.

    UsageError as `create`, or if another process writes the same; OSError if it cannot be renamed.
    """
    check_new(path, option, force=force)
    target = Path(os.path.realpath(path))
    partial = target.with_name(target.name + ".part")
    partial.unlink(missing_ok=True)  # left by a process that was killed
    with create(partial, option) as made:
        try:
            yield partial
            check_new(path, option, force=force)
            if not os.path.samestat(partial.stat(), os.fstat(made.fileno())):
                raise UsageError(f"{option} {path}: another process writes it; choose another file", code="in_use")
            os.replace(partial, target)
        finally:
            partial.unlink(missing_ok=True)


def is_own(path: Path, own: Collection[Path]) -> bool:
    """Whether `path` is one of the files in `own` (absolute paths)."""
    return Path(os.path.realpath(path)) in {Path(os.path.realpath(one)) for one in own}


def _same(one: Path, other: Path) -> bool:
    with suppress(OSError):
        return one.samefile(other)
    return os.path.realpath(one) == os.path.realpath(other)


def _is_input(path: Path, source: Path) -> bool:
    """Whether `path` is the file `source`, or a file inside the directory `source`, also through links."""
    real = Path(os.path.realpath(path))
    if any(_same(part, source) for part in (real, *real.parents)):
        return True
    try:
        found = path.stat()
    except OSError:
        return False
    if found.st_nlink < 2 or not source.is_dir():
        return False
    return any(_same(path, Path(folder, name)) for folder, _, names in os.walk(source) for name in names)


OUTPUTS = "outputs.json"
"""The file of a state directory that names what its run has written."""


def own_outputs(path: Path | None) -> list[Path]:
    """The files that the run with the state directory `path` has written so far; none if not known."""
    if path is None:
        return []
    try:
        return list(map(Path, msgspec.json.decode((path / OUTPUTS).read_bytes(), type=list[str])))
    except (OSError, ValueError):
        return []


def own_files(path: Path | None) -> list[Path]:
    """The files of a state directory; no output may be one of them."""
    names = ("state.json", "checkpoint", "lock", "staged", "files.log", "rewind.json", OUTPUTS)
    return [] if path is None else [path / name for name in names]
