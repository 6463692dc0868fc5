"""The run directory: one name for each running engine, held by a lock that the kernel drops when the engine dies.

An engine owns `<name>.json` (its description, locked while it lives), `<name>.sock` (its stream) and `<name>.log`. The
directory is in the user's state directory, not in the runtime directory, which is emptied at logout: an engine that
still runs must be found again. Each host has its own, because a home directory may be shared.
"""

import hashlib
import itertools
import logging
import os
import re
import socket
import stat
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import msgspec
import platformdirs
from msgspec import Struct

from ..system.errors import RunError, UsageError
from ..system.files import lock_file, try_lock_file
from ..system.places import variable_path
from .messages import decode_as

RUN_DIR_VARIABLE = "WMTOP_RUN_DIR"
NAME_LIMIT = 32
_SOCKET_PATH_LIMIT = 103  # bytes; macOS allows 104 with the final NUL, Linux 108
_DIR_LIMIT = _SOCKET_PATH_LIMIT - len("/.sock") - NAME_LIMIT
_FALLBACK = "/tmp/wmtop-{uid}-{key}"  # not $TMPDIR, which may differ between an engine and its viewer
_log = logging.getLogger("wmtop.run_directory")
_report: Callable[[str], object] = _log.warning
_reported: set[Path] = set()
_NAME = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{NAME_LIMIT - 1}}}")


class RunInfo(Struct, frozen=True, kw_only=True):
    """A running engine: its process, its start (epoch ms), what it reads, and where it logs."""

    name: str
    pid: int
    started_ms: int
    description: str
    log: str
    id: str = ""
    """Random, unique to this run: its stream begins with it."""

    @property
    def socket(self) -> Path:
        """The path of its stream's socket."""
        return socket_path(self.name)


class Claim:
    """A name that belongs to this process until `release` or its death."""

    def __init__(self, directory: Path, run: RunInfo, lock: int) -> None:
        self.run = run
        self._directory = directory
        self._lock: int | None = lock

    @property
    def lock(self) -> int:
        """The descriptor of the lock: a child process that inherits it can `adopt` the claim."""
        assert self._lock is not None, "released"
        return self._lock

    def hand_over(self) -> None:
        """Leave the name to the child process that has inherited `lock`."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def release(self) -> None:
        """Give the name back and remove its socket and description; the log stays."""
        if self._lock is None:
            return
        lock, self._lock = self._lock, None
        # RunError: the directory was removed, so there is nothing to give back.
        with suppress(RunError), _directory_lock(self._directory):
            _remove(self._directory, self.run.name)
        os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def report_with(report: Callable[[str], object]) -> None:
    """From now on, `report` gets the line that says that another run directory is used than the usual one."""
    global _report
    _report = report


def run_dir() -> Path:
    """The run directory, created if it is missing; UsageError if another user could open it.

    Where the usual one is not possible it is one in /tmp, of its own for each usual one, and that is said once.
    """
    chosen = os.environ.get(RUN_DIR_VARIABLE)
    if chosen:
        path = variable_path(RUN_DIR_VARIABLE, chosen).absolute()
        if len(os.fsencode(path)) > _DIR_LIMIT:
            raise UsageError(
                f"{RUN_DIR_VARIABLE}={path} is too long for a socket path; use at most {_DIR_LIMIT} bytes",
                code="too_long",
            )
        _make(path)
        return path
    usual = platformdirs.user_state_path("wmtop", appauthor=False) / f"run-{socket.gethostname()}"
    why = _why_not(usual)
    path = usual if why is None else _instead_of(usual)
    _make(path)
    if why is not None and usual not in _reported:
        _reported.add(usual)
        _report(f"the run directory is {path}, because {usual} {why}; {RUN_DIR_VARIABLE}=DIR chooses another")
    return path


def _why_not(usual: Path) -> str | None:
    """Why the usual run directory is not possible; None: it is there now."""
    length = len(os.fsencode(usual))
    if length > _DIR_LIMIT:
        return f"is too long for a socket path ({length} bytes, at most {_DIR_LIMIT})"
    try:
        usual.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:  # a missing or read-only home is not an error
        return None if usual.is_dir() else f"cannot be made ({error.strerror})"
    return None


def _instead_of(usual: Path) -> Path:
    """The directory in /tmp, another one for each home: an engine's name is taken only once in each."""
    key = hashlib.sha256(os.fsencode(usual)).hexdigest()[:12]
    return Path(_FALLBACK.format(uid=os.geteuid(), key=key))


def check_name(name: str) -> str:
    """`name` if it is valid for an engine; UsageError otherwise."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"bad name {name!r}; use letters, digits, '.', '_' and '-', starting with a letter or digit,"
            f" at most {NAME_LIMIT}, e.g. flights-2",
            code="bad_name",
        )
    return name


def socket_path(name: str) -> Path:
    """The Unix socket of the engine `name`."""
    return run_dir() / f"{check_name(name)}.sock"


def log_path(name: str) -> Path:
    """The log of the engine `name`; it outlives the engine: append to it only while the name is yours."""
    return run_dir() / f"{check_name(name)}.log"


def claim(name: str, description: str, started_ms: int) -> Claim:
    """Take `name` for this process; UsageError if a running engine has it."""
    directory = run_dir()
    check_name(name)
    with _directory_lock(directory):
        lock = _try_lock(directory / f"{name}.json", create=True)
        if lock is None:
            raise UsageError(
                f"the name {name!r} is taken by a running engine; choose another one with --name", code="taken"
            )
        return _settle(directory, name, description, started_ms, lock)


def claim_free(base: str, description: str, started_ms: int) -> Claim:
    """Take the first free name of `base`, `base-2`, `base-3`, … for this process."""
    directory = run_dir()
    with _directory_lock(directory):
        for name in _candidates(base):
            lock = _try_lock(directory / f"{name}.json", create=True)
            if lock is not None:
                return _settle(directory, name, description, started_ms, lock)
    raise AssertionError("there is always a free name")


def adopt(lock: int, name: str, run_id: str, description: str, started_ms: int) -> Claim:
    """Continue, in a child process, the claim whose descriptor it has inherited; RunError if that is not `name`'s."""
    directory = run_dir()
    check_name(name)
    with _directory_lock(directory):
        if not os.path.samestat(os.fstat(lock), os.stat(directory / f"{name}.json")):
            raise RunError(
                f"the name {name!r} was not passed on by the process that started this engine", code="not_passed_on"
            )
        os.set_inheritable(lock, False)
        return _settle(directory, name, description, started_ms, lock, run_id)


def list_runs() -> list[RunInfo]:
    """The running engines by name; files of dead ones (logs apart) are removed."""
    directory = run_dir()
    with _directory_lock(directory):
        return [run for path in sorted(directory.glob("*.json")) if (run := _look_at(path)) is not None]


def find_run(name: str) -> RunInfo:
    """The running engine `name`; if there is none, UsageError with the names of the running ones."""
    check_name(name)
    runs = list_runs()
    for run in runs:
        if run.name == name:
            return run
    if not runs:
        raise UsageError(
            f"no engine {name!r}, and no other is running; start one with wmtop demo or wmtop run", code="no_engine"
        )
    raise UsageError(f"no engine {name!r} is running; running: {', '.join(run.name for run in runs)}", code="no_engine")


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise UsageError(
            f"cannot make the run directory {path} ({error.strerror}); set {RUN_DIR_VARIABLE} to another directory",
            code="not_made",
        ) from error
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(
            f"the run directory {path} is a link; set {RUN_DIR_VARIABLE} to a directory of yours", code="link"
        )
    if status.st_uid != os.geteuid():
        raise UsageError(
            f"the run directory {path} belongs to another user; set {RUN_DIR_VARIABLE} to a directory of yours",
            code="another_user",
        )
    if stat.S_IMODE(status.st_mode) & 0o777 != 0o700:
        raise UsageError(f"the run directory {path} is not private; run chmod 700 {path}", code="not_private")


def _candidates(base: str) -> Iterator[str]:
    clean = re.sub(r"[^A-Za-z0-9._-]+", "-", base).strip("._-") or "engine"
    yield clean[:NAME_LIMIT]
    for number in itertools.count(2):
        suffix = f"-{number}"
        yield clean[: NAME_LIMIT - len(suffix)] + suffix


@contextmanager
def _directory_lock(directory: Path) -> Generator[None]:
    """Lock the directory: one process at a time takes, lists or gives back names, for a moment only."""
    try:
        descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            with _lockable(directory):
                lock_file(descriptor)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        raise RunError(
            f"cannot use the run directory {directory}: {error.strerror or error}", code="unusable"
        ) from error


def _try_lock(path: Path, *, create: bool = False) -> int | None:
    """A descriptor that holds the lock of `path`; None if a living process holds it."""
    descriptor = os.open(path, os.O_RDWR | (os.O_CREAT if create else 0), 0o600)
    try:
        with _lockable(path.parent):
            locked = try_lock_file(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    if not locked:
        os.close(descriptor)
        return None
    return descriptor


@contextmanager
def _lockable(directory: Path) -> Generator[None]:
    """UsageError if the directory's file system has no locks."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"{directory} cannot hold locks ({error.strerror}); set {RUN_DIR_VARIABLE} to a local directory"
        ) from error


def _settle(
    directory: Path, name: str, description: str, started_ms: int, lock: int, run_id: str | None = None
) -> Claim:
    """Write the owner's description into the locked file itself: a new file in its place would not be locked."""
    run = RunInfo(
        name=name,
        pid=os.getpid(),
        started_ms=started_ms,
        description=description,
        log=str(directory / f"{name}.log"),
        id=run_id or os.urandom(8).hex(),
    )
    (directory / f"{name}.sock").unlink(missing_ok=True)
    os.ftruncate(lock, 0)
    os.pwrite(lock, msgspec.json.encode(run), 0)
    return Claim(directory, run, lock)


def _look_at(path: Path) -> RunInfo | None:
    """The engine that owns `path`; if it is dead, its files are removed."""
    lock = _try_lock(path)
    if lock is not None:
        _remove(path.parent, path.stem)
        os.close(lock)
        return None
    try:
        return decode_as(RunInfo, path.read_bytes())
    except msgspec.DecodeError as error:
        raise RunError(f"{path} is damaged ({error}); remove it", code="damaged") from error


def _remove(directory: Path, name: str) -> None:
    for suffix in (".sock", ".json"):
        with suppress(FileNotFoundError):
            (directory / f"{name}{suffix}").unlink()
