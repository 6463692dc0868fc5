"""The state directory: what survives `kill -9`, and what must agree before a run goes on.

It holds a lock, Spark's checkpoint and `state.json`. Order in a batch: firings appended and synced, state written,
synced, renamed, directory synced, and only then does Spark commit the batch.
"""

import fcntl
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from ..core.monitor import Monitor
from ..core.settings import Settings
from ..errors import UsageError

STATE_VERSION = 1
JVM_GONE_WITHIN_S = 20


class SavedState(Struct, kw_only=True):
    """What `state.json` holds; `monitor` has the settings in force, the last batch applied and its processing time."""

    version: int = STATE_VERSION
    source: dict[str, Any]
    asked: Settings
    """The settings that the command line asked for."""
    query_id: str | None
    offsets_digest: str | None
    """Of the checkpoint's `offsets/<last batch>`."""
    firings_bytes: int
    monitor: Monitor


class StateDirectory:
    """One run's directory; only one engine at a time holds it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoint = path / "checkpoint"
        self._state_file = path / "state.json"
        self._lock_fd: int | None = None

    def lock(self) -> None:
        """Take the lock, and wait until the JVM of a killed run is gone; UsageError while another engine holds it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            fd = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UsageError(
                f"cannot use --state-dir {self.path}: {error.strerror}; give a directory you may write"
            ) from None
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(fd)
            raise UsageError(
                f"--state-dir {self.path} is in use by a running engine; stop it (wmtop runs, wmtop stop NAME) "
                "or give another"
            ) from None
        self._lock_fd = fd
        self._wait_for_jvm(os.pread(fd, 64, 0).decode(errors="replace").strip())

    def note_jvm(self, pid: int) -> None:
        """Write down the JVM's pid: the next run waits until it is gone."""
        assert self._lock_fd is not None
        os.ftruncate(self._lock_fd, 0)
        os.pwrite(self._lock_fd, str(pid).encode(), 0)

    def unlock(self) -> None:
        """Give the lock up."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
            self._lock_fd = None

    def save(self, state: SavedState) -> None:
        """Write the state so that a crash leaves either the old or the new one."""
        temporary = self._state_file.with_suffix(".tmp")
        with open(temporary, "wb") as file:
            file.write(msgspec.json.encode(state))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._state_file)
        _sync_directory(self.path)

    def load(self, source: dict[str, Any], asked: Settings) -> SavedState | None:
        """The saved state, or None for a fresh directory; UsageError where it is not this run's or does not fit."""
        last_commit = self._last_commit()
        if not self._state_file.exists():
            if last_commit is not None:
                raise UsageError(f"{self._misfit()}: it has a checkpoint but no state.json")
            return None
        try:
            state = msgspec.json.decode(self._state_file.read_bytes(), type=SavedState)
        except (msgspec.DecodeError, OSError) as error:
            raise UsageError(f"{self._misfit()}: state.json cannot be read ({error})") from None
        self._compare(state, source, asked)
        batch = state.monitor.batch
        if last_commit is not None and (batch is None or batch not in (last_commit, last_commit + 1)):
            raise UsageError(f"{self._misfit()}: its state is of batch {batch}, its checkpoint of batch {last_commit}")
        if batch is not None and state.offsets_digest != self.offsets_digest(batch):
            raise UsageError(f"{self._misfit()}: offsets of batch {batch} are not those that were applied")
        if state.query_id is not None and state.query_id != self.query_id():
            raise UsageError(f"{self._misfit()}: the checkpoint is of another query")
        return state

    def query_id(self) -> str | None:
        """The id in the checkpoint's `metadata`, or None before it is there."""
        try:
            return json.loads((self.checkpoint / "metadata").read_text())["id"]
        except (OSError, ValueError, KeyError):
            return None

    def offsets_digest(self, batch: int) -> str | None:
        """A digest of the checkpoint's `offsets/<batch>`, or None where it is not there."""
        try:
            return hashlib.sha256((self.checkpoint / "offsets" / str(batch)).read_bytes()).hexdigest()
        except OSError:
            return None

    def batch_time_ms(self, batch: int) -> int | None:
        """When Spark fixed the input of a batch (epoch ms), from `offsets/<batch>`."""
        try:
            lines = (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()
            return int(json.loads(lines[1])["batchTimestampMs"])
        except (OSError, ValueError, KeyError, IndexError):
            return None

    def source_offsets(self, batch: int) -> list[str]:
        """The end offsets of a batch, a JSON text for each source of the query; empty where they cannot be read."""
        try:
            return (self.checkpoint / "offsets" / str(batch)).read_text().splitlines()[2:]
        except OSError:
            return []

    def _last_commit(self) -> int | None:
        commits = self.checkpoint / "commits"
        if not commits.is_dir():
            return None
        return max((int(name) for name in os.listdir(commits) if name.isdigit()), default=None)

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

    def _misfit(self) -> str:
        return f"--state-dir {self.path} cannot be continued (use another directory, or remove this one to start anew)"

    def _wait_for_jvm(self, pid: str) -> None:
        deadline = time.monotonic() + JVM_GONE_WITHIN_S
        while pid.isdigit() and _is_java(int(pid)):
            if time.monotonic() > deadline:
                raise UsageError(
                    f"the JVM of a killed run (process {pid}) still uses --state-dir {self.path}; end it first"
                )
            time.sleep(0.1)


def _is_java(pid: int) -> bool:
    """Whether that process is a JVM (a reused pid is not); where /proc is missing: whether it exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False
    comm = Path(f"/proc/{pid}/comm")
    return "java" in comm.read_text() if comm.exists() else not Path("/proc").exists()


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
