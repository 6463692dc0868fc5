"""The state of a checkpoint in a store, as far as open windows need it: each partition's snapshot, then its deltas."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ...snapshot import WindowsUnknown
from .checkpoint import SHUFFLE_PARTITIONS, STATE_PROVIDER
from .checkpoint_files import decode_offsets, decode_operator
from .files import UnreadableError
from .open_windows import NO_WINDOWS, OPERATOR_KINDS
from .store import Entry, Store, write_copy

MAX_PARTITIONS = 32
"""Partitions of all operators, at most; each costs two requests per batch."""
MAX_BYTES = 64 * 1024 * 1024
"""Bytes of snapshots and deltas fetched at the start, at most."""
KEPT_DELTAS = 20
"""Deltas kept behind the reader's position; a reload fetches a snapshot."""
_FILE = re.compile(r"([0-9]{1,18})\.(snapshot|delta)")


class StateMirror:
    """Copies the state of windowed aggregations in the default state store; other kinds are described only."""

    def __init__(self, store: Store, local: Path) -> None:
        self.left_out: WindowsUnknown | None = None
        """Why it is not copied."""
        self._store = store
        self._local = local / "state"
        self._described = False
        self._partitions: list[str] | None = None
        self._version: int | None = None

    def reload_next(self) -> None:
        """Fetch the last snapshots again at the next refresh."""
        self._version = None

    def refresh(self, committed: int, offsets: bytes) -> None:
        """Fetch the state after the batch `committed`, whose offsets' file is given. RemoteError."""
        version = committed + 1
        if self._version == version or self.left_out is not None:
            return
        if not self._described:
            self._describe()
        partitions = self._partitions if self._partitions is not None else self._choose(offsets)
        if partitions:
            deltas = [f"{partition}/{version}.delta" for partition in partitions]
            if self._version != version - 1 or not self._fetch(deltas):
                self._reload(partitions, version)
            self._drop_old(partitions, version - KEPT_DELTAS)
        self._version = version

    def _describe(self) -> None:
        """Read the kinds of the operators and the layout of their rows."""
        for operator in self._store.entries("state") or ():
            if not operator.name.isdecimal():
                continue
            (self._local / operator.name).mkdir(parents=True, exist_ok=True)
            for directory in (f"{operator.name}/_metadata", f"{operator.name}/0/_metadata"):
                self._copy(directory)
            for store in self._store.entries(f"state/{operator.name}/0") or ():
                if store.is_dir and not store.name.startswith("_"):  # a join's
                    self._copy(f"{operator.name}/0/{store.name}/_metadata")
            self._described = True

    def _copy(self, directory: str) -> None:
        entries = self._store.entries(f"state/{directory}") or ()
        (self._local / directory).mkdir(parents=True, exist_ok=True)
        for entry in entries:
            if entry.is_dir:
                (self._local / directory / entry.name).mkdir(exist_ok=True)
        self._fetch([f"{directory}/{entry.name}" for entry in entries if not entry.is_dir])

    def _choose(self, offsets: bytes) -> list[str]:
        """The partitions to copy, as `operator/partition`; none if none of them is readable."""
        if not self._described:
            return []
        try:
            conf = decode_offsets(offsets).conf
        except UnreadableError:
            return []
        partitions = conf.get(SHUFFLE_PARTITIONS, "")
        if not partitions.isdecimal() or "HDFSBacked" not in conf.get(STATE_PROVIDER, ""):
            self._partitions = []
            return []
        operators = list(self._windowed())
        if len(operators) * int(partitions) > MAX_PARTITIONS:
            self.left_out = WindowsUnknown(
                "remote_state", {"partitions": len(operators) * int(partitions), "limit": MAX_PARTITIONS}
            )
            return []
        self._partitions = [f"{operator}/{number}" for operator in operators for number in range(int(partitions))]
        return self._partitions

    def _windowed(self) -> Iterator[str]:
        for operator in sorted(self._local.iterdir()):
            try:
                name = decode_operator((operator / "_metadata" / "metadata").read_bytes()).operator_info.operator_name
            except (OSError, UnreadableError):
                yield operator.name
                continue
            if OPERATOR_KINDS.get(name, "other") not in NO_WINDOWS:
                yield operator.name

    def _reload(self, partitions: list[str], version: int) -> None:
        """Each partition's newest snapshot up to the version, and the deltas after it."""
        needed: list[str] = []
        size = 0
        for partition in partitions:
            for entry in _since_snapshot(self._store.entries(f"state/{partition}") or (), version):
                needed.append(f"{partition}/{entry.name}")
                size += entry.size
        if size > MAX_BYTES:
            self.left_out = WindowsUnknown("remote_state_size", {"bytes": size, "limit": MAX_BYTES})
            return
        self._fetch(needed)

    def _fetch(self, names: list[str]) -> bool:
        """Fetch files; returns whether all existed."""
        contents = self._store.read_all([f"state/{name}" for name in names])
        for name, content in zip(names, contents, strict=True):
            if content is not None:
                write_copy(self._local / name, content.data, None)
        return None not in contents

    def _drop_old(self, partitions: list[str], before: int) -> None:
        for partition in partitions:
            directory = self._local / partition
            if directory.is_dir():
                for path in directory.iterdir():
                    if (match := _FILE.fullmatch(path.name)) and int(match[1]) < before:
                        path.unlink()


def _since_snapshot(entries: Sequence[Entry], version: int) -> list[Entry]:
    files = [(int(match[1]), match[2], entry) for entry in entries if (match := _FILE.fullmatch(entry.name))]
    snapshot = max((number for number, kind, _ in files if kind == "snapshot" and number <= version), default=0)
    return [
        entry
        for number, kind, entry in files
        if (kind == "snapshot" and number == snapshot) or (kind == "delta" and snapshot < number <= version)
    ]
