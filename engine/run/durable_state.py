"""The state directory: it survives `kill -9`, its parts must agree before a run resumes; and the `--firings` file."""

import hashlib
import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import IO, Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from ..feed.messages import decode_as
from ..system.errors import RunError, UsageError, first_line
from ..system.files import OUTPUTS, Existing, check_new, create, own_outputs, replace_file, try_lock_file
from ..system.ownership import check_only_ours
from ..watermarks.generators import SilentWatermarks, belongs_to
from ..watermarks.monitor import Monitor, to_save
from ..watermarks.settings import Settings
from ..watermarks.window_operator import Firing

STATE_VERSION = 6
JVM_GONE_WITHIN_S = 20
OPTION = "--firings"
STATE_OPTION = "--state-dir"
_CHANGEABLE = ("lateness_ms", "idle_after_ms", "version")
"""The settings that 'wmtop set' and the screen change while an engine runs, with their version."""
_SEAL = b',"sha256":"'
_encoder = msgspec.json.Encoder()


class SavedState(Struct, kw_only=True):
    """The content of `state.json`, which ends with the `sha256` of the rest; `monitor` has the settings in force, the
    last batch applied and its processing time.
    """

    version: int = STATE_VERSION
    source: dict[str, Any]
    asked: Settings
    """The settings that the command line asked for."""
    query_id: str | None
    offsets_digest: str | None
    """The digest of the checkpoint's `offsets/<last batch>`."""
    firings_bytes: Annotated[int, Meta(ge=0)]
    monitor: Monitor


class _Versioned(Struct):
    """The state's fields that every version has."""

    version: int


class _Rewind(Struct):
    """The new content of the offset log's entry of the last batch that was applied."""

    batch: int
    content: str


def check_state_directory(path: Path) -> None:
    """UsageError if the directory is there and cannot be trusted: others can change it, or it cannot be read."""
    try:
        check_only_ours(path, STATE_OPTION)
    except OSError as error:
        raise _unusable(path, error) from None


def _unusable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"cannot use {STATE_OPTION} {path}: {error.strerror}; give a directory you may write")


class StateDirectory:
    """One run's directory; only one engine at a time holds its lock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "checkpoint"
        self._state_file = path / "state.json"
        self._rewind_file = path / "rewind.json"
        self._lock_fd: int | None = None
        self._writing = threading.Lock()  # nothing is written after `unlock`: another engine may own the directory

    def lock(self) -> None:
        """Take the lock, and wait until the JVM of a killed run has ended.

        UsageError while another engine holds it, or if others can change the directory or something in it.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            check_only_ours(self.path, STATE_OPTION)
            fd = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise _unusable(self.path, error) from None
        try:
            locked = try_lock_file(fd)
        except OSError as error:
            os.close(fd)
            raise UsageError(
                f"--state-dir {self.path} cannot hold locks ({error.strerror}); give a directory on a local disk"
            ) from None
        if not locked:
            os.close(fd)
            raise UsageError(
                f"--state-dir {self.path} is in use by a running engine; stop it (wmtop runs, wmtop stop NAME) "
                "or give another"
            ) from None
        self._lock_fd = fd
        self._wait_for_jvm(os.pread(fd, 64, 0).decode(errors="replace").strip())

    def note_jvm(self, pid: int) -> None:
        """Save the JVM's pid in the lock file: the next run waits until that JVM is gone."""
        assert self._lock_fd is not None
        try:
            os.ftruncate(self._lock_fd, 0)
            os.pwrite(self._lock_fd, str(pid).encode(), 0)
        except OSError as error:
            raise unwritable(self.path / "lock", error) from error

    def note_outputs(self, paths: list[Path]) -> None:
        """Save which files this run writes: a resumed run appends to them although they exist."""
        known = {*own_outputs(self.path), *(path.absolute() for path in paths)}
        try:
            replace_file(self.path / OUTPUTS, msgspec.json.encode(sorted(map(str, known))))
        except OSError as error:
            raise unwritable(self.path / OUTPUTS, error) from error

    def unlock(self) -> None:
        """Release the lock once a `save` in progress is done; a later one fails."""
        with self._writing:
            if self._lock_fd is not None:
                os.close(self._lock_fd)
                self._lock_fd = None

    def save(self, state: SavedState) -> None:
        """Write the state so that a crash leaves either the old or the new one; RunError on failure."""
        content = msgspec.json.encode(structs.replace(state, monitor=to_save(state.monitor)))
        with self._writing:
            if self._lock_fd is None:
                raise RunError(f"the engine has stopped; nothing more is saved in --state-dir {self.path}")
            try:
                replace_file(self._state_file, _sealed(content), sync=True)
            except OSError as error:
                raise unwritable(self._state_file, error) from error

    def load(self, source: dict[str, Any], asked: Settings) -> SavedState | None:
        """The saved state, or None for a new directory; UsageError if it belongs to another run or does not fit."""
        last_commit = self._last_commit()
        if not self._state_file.exists():
            if last_commit is not None:
                raise UsageError(f"{self._misfit()}: it has a checkpoint but no state.json")
            return None
        state = self._read()
        self.finish_rewind(state.offsets_digest)
        self._compare(state, source, asked)
        batch = state.monitor.batch
        if last_commit is not None and (batch is None or batch not in (last_commit, last_commit + 1)):
            raise UsageError(f"{self._misfit()}: its state is of batch {batch}, its checkpoint of batch {last_commit}")
        if batch is not None and state.offsets_digest != self.offsets_digest(batch):
            raise UsageError(f"{self._misfit()}: the offsets of batch {batch} differ from those applied")
        if state.query_id is not None and state.query_id != self.query_id():
            raise UsageError(f"{self._misfit()}: the checkpoint is of another query")
        return state

    def query_id(self) -> str | None:
        """The id in the checkpoint's `metadata`, or None if it is missing."""
        try:
            return json.loads((self.checkpoint / "metadata").read_text())["id"]
        except (OSError, ValueError, KeyError):
            return None

    def offsets_digest(self, batch: int) -> str | None:
        """A digest of the checkpoint's `offsets/<batch>`, or None if it is missing."""
        log = self._offset_log(batch)
        return None if log is None else hashlib.sha256(log).hexdigest()

    def plan_rewind(self, batch: int, change: Callable[[str], str]) -> str:
        """Plan that the query continues after `batch` at other offsets; returns the digest of its offsets then.

        `change` makes a source's new line of its old one. Save a state with the digest, then `finish_rewind`: a crash
        in between leaves either the old offsets or the new ones.
        """
        lines = (self._offset_log(batch) or b"").decode().split("\n")
        of_sources = [change(line) if line.strip() else line for line in lines[2:]]
        content = "\n".join([*lines[:2], *of_sources])
        try:
            replace_file(self._rewind_file, msgspec.json.encode(_Rewind(batch, content)), sync=True)
        except OSError as error:
            raise unwritable(self._rewind_file, error) from error
        return hashlib.sha256(content.encode()).hexdigest()

    def finish_rewind(self, digest: str | None) -> None:
        """Do what was planned if the saved state has its `digest`, else forget it."""
        try:
            planned = decode_as(_Rewind, self._rewind_file.read_bytes())
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(f"{self._misfit()}: rewind.json cannot be read ({first_line(error)})") from None
        try:
            if hashlib.sha256(planned.content.encode()).hexdigest() == digest:
                self.drop_planned(planned.batch)
                self._write_offsets(planned.batch, planned.content.encode())
            self._rewind_file.unlink()
        except OSError as error:
            raise unwritable(self._rewind_file, error) from error

    def drop_planned(self, last: int | None) -> None:
        """Remove the offsets of batches after the last one that was applied: they are planned again."""
        offsets = self.checkpoint / "offsets"
        names = os.listdir(offsets) if offsets.is_dir() else []
        for number in sorted((int(name) for name in names if name.isdecimal()), reverse=True):
            if last is None or number > last:
                (offsets / str(number)).unlink()
                (offsets / f".{number}.crc").unlink(missing_ok=True)

    def _write_offsets(self, batch: int, content: bytes) -> None:
        offsets = self.checkpoint / "offsets"
        (offsets / f".{batch}.crc").unlink(missing_ok=True)  # of the old content; Spark needs none
        replace_file(offsets / str(batch), content, sync=True)

    def batch_time_ms(self, batch: int) -> int | None:
        """When Spark fixed the input of a batch (epoch ms), from `offsets/<batch>`."""
        try:
            return int(json.loads((self._offset_log(batch) or b"").decode().splitlines()[1])["batchTimestampMs"])
        except (ValueError, KeyError, IndexError):
            return None

    def source_offsets(self, batch: int) -> list[str]:
        """The end offsets of a batch, a JSON text for each source of the query; empty if they cannot be read."""
        return (self._offset_log(batch) or b"").decode().splitlines()[2:]

    def _offset_log(self, batch: int) -> bytes | None:
        try:
            return (self.checkpoint / "offsets" / str(batch)).read_bytes()
        except OSError:
            return None

    def _last_commit(self) -> int | None:
        commits = self.checkpoint / "commits"
        if not commits.is_dir():
            return None
        return max((int(name) for name in os.listdir(commits) if name.isdecimal()), default=None)

    def _read(self) -> SavedState:
        """The saved state; UsageError if it is damaged or of another version."""
        try:
            content = self._state_file.read_bytes()
            version = decode_as(_Versioned, content).version
            if version != STATE_VERSION:
                raise UsageError(
                    f"--state-dir {self.path} was written by another wmtop (version {version} of the state, this one "
                    f"reads {STATE_VERSION}); continue with that wmtop, or start over in another directory"
                )
            sealed, seal, _ = content.rpartition(_SEAL)
            if seal and _sealed(sealed + b"}") != content:  # a state of an older wmtop has none
                raise msgspec.DecodeError("it has changed since it was saved")
            return decode_as(SavedState, content)
        except (msgspec.DecodeError, OSError) as error:
            raise UsageError(f"{self._misfit()}: state.json cannot be read ({first_line(error)})") from None

    def _compare(self, state: SavedState, source: dict[str, Any], asked: Settings) -> None:
        if state.source != source:
            other = [key for key in {*state.source, *source} if state.source.get(key) != source.get(key)]
            raise UsageError(
                f"--state-dir {self.path} belongs to another run: its source differs in {', '.join(sorted(other))}; "
                "give the same command or another directory"
            )
        if state.asked != asked:
            other = [name for name in asked.__struct_fields__ if getattr(asked, name) != getattr(state.asked, name)]
            raise UsageError(
                f"--state-dir {self.path} belongs to another run: it was started with other settings "
                f"({', '.join(other)}); give the same command, or change them with 'wmtop set' while it runs"
            )
        in_force = state.monitor.settings
        changeable = {name: getattr(in_force, name) for name in _CHANGEABLE}
        if in_force != structs.replace(asked, **changeable):
            raise UsageError(f"{self._misfit()}: its settings in force are not those of this command", code="settings")
        # A state decides no strategy: a user's generator in it would be unpickled, and that runs code.
        for channel in state.monitor.channels:
            is_removed = channel.left == "removed" and isinstance(channel.generator, SilentWatermarks)
            if not is_removed and not belongs_to(channel.generator, asked):
                raise UsageError(
                    f"{self._misfit()}: a generator in its state is not of --strategy {asked.strategy}",
                    code="generator",
                )

    def _misfit(self) -> str:
        return f"--state-dir {self.path} cannot be continued (use another directory, or remove this one to start over)"

    def _wait_for_jvm(self, pid: str) -> None:
        deadline = time.monotonic() + JVM_GONE_WITHIN_S
        while pid.isdecimal() and _is_java(int(pid)):
            if time.monotonic() > deadline:
                raise UsageError(
                    f"the JVM of a killed run (process {pid}) still uses --state-dir {self.path}; kill it first"
                )
            time.sleep(0.1)


def _sealed(content: bytes) -> bytes:
    """A JSON object with its digest as the last field: what has changed since is noticed."""
    return content[:-1] + _SEAL + hashlib.sha256(content).hexdigest().encode() + b'"}'


def _is_java(pid: int) -> bool:
    """Whether that process is a JVM (a reused pid is not); without /proc: whether it exists."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    comm = Path(f"/proc/{pid}/comm")
    return "java" in comm.read_text() if comm.exists() else not Path("/proc").exists()


def unwritable(path: Path, error: OSError) -> RunError:
    """The error for an output file that cannot be written: which, why, and what to do."""
    return RunError(
        f"cannot write {path}: {error.strerror or first_line(error)}; free some space and run the same command again: "
        "with --state-dir it continues after the last saved batch",
        code="unwritable",
    )


class FiringsFile:
    """Append-only; a resumed run first truncates it to the length in the saved state."""

    def __init__(self, path: Path, known_bytes: int, existing: Existing = "refuse") -> None:
        """Open `path`, which has `known_bytes` bytes by the saved state (0: start with an empty file).

        UsageError if it exists and `existing` refuses that, or if it does not hold what this run had written.
        """
        self._path = path
        if known_bytes or (existing == "continue" and path.exists()):
            self._file = _reopen(path, known_bytes, existing)
        else:
            self._file = create(path, OPTION, force=existing != "refuse")

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._file.tell()

    def append(self, firings: list[Firing]) -> None:
        """Write lines and sync them to the disk; RunError that names the file on failure."""
        if not firings:
            return
        try:
            self._file.write(b"".join(_encoder.encode(firing) + b"\n" for firing in firings))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self._path, error) from error

    def close(self) -> None:
        """Close the file; lines that were not written are not in the saved state either."""
        with suppress(OSError):
            self._file.close()


def _reopen(path: Path, known_bytes: int, existing: Existing) -> IO[bytes]:
    check_new(path, OPTION, force=existing != "refuse")
    try:
        file = open(path, "r+b")  # noqa: SIM115
    except OSError as error:
        raise UsageError(
            f"{OPTION} {path}: {error.strerror}, but this run had written {known_bytes} bytes of firings; "
            "give the file that it wrote, or another --state-dir",
            code="not_its_file",
        ) from None
    size = file.seek(0, os.SEEK_END)
    file.seek(max(known_bytes - 1, 0))
    if size < known_bytes or (known_bytes and file.read(1) != b"\n"):
        file.close()
        raise UsageError(
            f"{OPTION} {path} ({size} bytes) does not have the {known_bytes} bytes that this run had written; "
            "give the file that it wrote, or another --state-dir",
            code="not_its_file",
        )
    file.truncate(known_bytes)
    file.seek(0, os.SEEK_END)
    return file
