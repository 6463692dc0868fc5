"""A redacted copy of a recording, to be shared: the same numbers and times, no names."""

import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Struct

from ..snapshot import Note, Snapshot, SourceView, SparkProgress
from ..snapshot.kinds.chain import Hop
from ..snapshot.kinds.flink_job import FlinkJob, FlinkVertex
from ..system.errors import RunError, first_line
from ..system.files import written_whole
from .messages import Header
from .recording_reader import RecordingReader
from .recording_writer import UNBOUNDED, RecordingWriter

REDACTED = "redacted"
_CHANNELS = ("channel", "channels", "blockers", "holder", "waits_for")
"""Fields that name a channel, in any struct."""
_KEPT = frozenset[tuple[type[Struct], str]](
    {
        (Header, "format"),
        (Snapshot, "origin"),
        (SourceView, "kind"),
        (SourceView, "reader"),
        (SparkProgress, "phases_ms"),
    }
)
"""Fields whose text is wmtop's or Spark's, not the user's: taps, kinds of sources, phases of a batch."""
_TASK_ID, _STATE = re.compile(r"[0-9a-f]{32}"), re.compile(r"[A-Z]+")
_SHAPED: dict[tuple[type[Struct], str], re.Pattern[str]] = {
    (FlinkJob, "held_in"): _TASK_ID,
    (FlinkJob, "operator"): _TASK_ID,
    (FlinkJob, "state"): _STATE,
    (FlinkVertex, "id"): _TASK_ID,
    (FlinkVertex, "inputs"): _TASK_ID,
    (FlinkVertex, "status"): _STATE,
    (Hop, "critical"): re.compile(r"[a-z]+(-[a-z]+)+"),
}
"""Text that is kept if it has the form of Flink's ids (without those of its tasks a job's graph would change), or of a
finding's code.
"""
_INSTANCE = re.compile(r"#\d+")
"""wmtop's name for an instance; with several Flink tasks the task's name comes first."""
_OUR_KEYS = frozenset[tuple[type[Struct], str]]({(Note, "args")})
"""Dictionaries whose keys are wmtop's."""
_PLAIN = (int, float, bool, NoneType)

_T = TypeVar("_T", bound=Struct)


def redact(recording: RecordingReader, path: Path, progress: Callable[[int], object], *, force: bool = False) -> int:
    """Write a redacted copy of `recording` to `path`; returns how many channels were renamed.

    Reads one snapshot at a time and calls `progress` with the number done so far. UsageError if the file exists
    (unless `force` replaces it) or cannot be created; RunError if the disk is full.
    """
    redaction = Redaction()
    try:
        with (
            written_whole(path, "--redact", force=force) as partial,
            RecordingWriter(partial, redaction.header(recording.header), UNBOUNDED, existing="replace") as writer,
        ):
            for number, snapshot in enumerate(recording, 1):
                writer.append(redaction.snapshot(snapshot))
                progress(number)
    except (OSError, RunError) as error:
        cause = error.__cause__ or error
        if not isinstance(cause, OSError):  # the recording is damaged
            raise
        raise RunError(f"cannot write {path}: {cause.strerror or first_line(cause)}", code="unwritable") from error
    return redaction.channels


class Redaction:
    """Renames channels to c001, c002, … in order of appearance, each always to the same name.

    Other text is replaced, unless its type allows only given words (a state, a cause, a strategy).
    """

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._instances: frozenset[str] = frozenset()

    @property
    def channels(self) -> int:
        """How many channels it has renamed."""
        return len(self._names)

    def header(self, header: Header) -> Header:
        """The header without names."""
        return self._struct(header)

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot without names; if the holder is a source instance, its `#0` stays."""
        named = (view.channel for view in snapshot.instances or ())
        self._instances = frozenset(name for name in named if _INSTANCE.fullmatch(name))
        for view in snapshot.channels:  # names are given in the order of the snapshot
            self._channel(view.channel)
        for name in snapshot.target.names_of_others:
            self._channel(name)
        return self._struct(snapshot)

    def _struct(self, value: _T) -> _T:
        changes = {name: self._field(value, name) for name in _fields_with_text(type(value))}
        return msgspec.structs.replace(value, **changes) if changes else value

    def _field(self, struct: Struct, name: str) -> Any:
        value = getattr(struct, name)
        if (type(struct), name) in _OUR_KEYS:
            return {key: self._value(item, key) for key, item in value.items()}
        if (shape := _SHAPED.get((type(struct), name))) is not None:
            return _shaped(value, shape)
        return self._value(value, name)

    def _value(self, value: Any, name: str) -> Any:
        if isinstance(value, Struct):
            return self._struct(value)
        if isinstance(value, str):
            return self._channel(value) if name in _CHANNELS else self._names.get(value, REDACTED)
        if isinstance(value, list | tuple):
            return [self._value(item, name) for item in cast("list[Any]", value)]
        if isinstance(value, dict):
            pairs = cast("dict[Any, Any]", value).items()
            return {self._key(key, place): self._value(item, name) for place, (key, item) in enumerate(pairs, 1)}
        return value

    def _channel(self, name: str) -> str:
        if name in self._instances:
            return name
        return self._names.setdefault(name, f"c{len(self._names) + 1:03d}")

    def _key(self, key: Any, place: int) -> Any:
        return self._names.get(key, f"{REDACTED}-{place}") if isinstance(key, str) else key


def _shaped(value: Any, shape: re.Pattern[str]) -> Any:
    if isinstance(value, list):
        return [_shaped(item, shape) for item in cast("list[Any]", value)]
    return value if value is None or shape.fullmatch(value) else REDACTED


@lru_cache(maxsize=256)
def _fields_with_text(kind: type[Struct]) -> tuple[str, ...]:
    """The fields of a struct that may hold text from outside, with their types."""
    hints = get_type_hints(kind)
    return tuple(name for name in kind.__struct_fields__ if (kind, name) not in _KEPT and not _is_plain(hints[name]))


def _is_plain(hint: Any) -> bool:
    """Whether a type is a number, a given word, None, or a choice or list of these."""
    origin = get_origin(hint)
    if origin is Literal or hint in _PLAIN or hint is msgspec.UnsetType:
        return True
    if origin in (Union, UnionType, list, tuple):
        return all(_is_plain(part) for part in get_args(hint))
    return isinstance(hint, type) and issubclass(hint, Struct) and not _fields_with_text(hint)
