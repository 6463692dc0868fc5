"""The rows of JSON lines: what is not one JSON object is a row of its own, and costs no other row."""

import codecs
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

import msgspec

from ...system.json_values import JsonPath
from .row_chunks import Broken, Chunk, CutLine, ReadableContent, broken_text, first_broken, lines_of

BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises on bytes that are not JSON, or too deep for it."""


class JsonRows:
    """Decodes lines to the values at some paths."""

    def __init__(self, paths: dict[str, JsonPath]) -> None:
        """`paths`: by the name under which their values are given."""
        self._paths = {name: path.steps for name, path in paths.items()}
        self._fields = {str(steps[0]): f"c{number}" for number, steps in enumerate(self._paths.values())}
        renamed = {field: name for name, field in self._fields.items()}
        fields = [(field, Any, None) for field in renamed]
        record = msgspec.defstruct("Record", fields, rename=renamed, gc=False)
        raw = msgspec.defstruct("RawRecord", [(field, msgspec.Raw, msgspec.Raw()) for field in renamed], rename=renamed)
        self._decoder = msgspec.json.Decoder(record)
        self._raw_decoder = msgspec.json.Decoder(raw)
        self._nothing = record()

    def chunks(self, source: "BufferedReader[ReadableContent]", size: int, content: ReadableContent) -> Iterator[Chunk]:
        """The rows, about `size` bytes at a time; blank lines are no rows."""
        if source.peek(len(codecs.BOM_UTF8)).startswith(codecs.BOM_UTF8):
            source.read(len(codecs.BOM_UTF8))
        for lines in lines_of(source, size, content):
            yield self._chunk(self._records(lines))

    def _records(self, lines: bytes) -> list[Any]:
        """A record, or `Broken`, for each line that is not blank."""
        if isinstance(lines, CutLine):
            return [Broken("too_long", broken_text(lines))]
        records = self._all_at_once(lines) if _is_object_a_line(lines) else None
        if records is None or len(records) != _count_lines(lines):
            records = [self._record(line) for line in lines.split(b"\n") if line.strip()]
        return records

    def _all_at_once(self, lines: bytes) -> list[Any] | None:
        try:
            if not lines.isascii():
                lines.decode()  # the decoder does not check what it skips
            return self._decoder.decode_lines(lines)
        except BAD_JSON:
            return None

    def _record(self, line: bytes) -> Any:
        try:
            line.decode()
            return self._decoder.decode(line)
        except UnicodeDecodeError:
            return Broken("not_utf8", broken_text(line))
        except msgspec.ValidationError:  # JSON, but a number that no type holds, or not an object
            return self._value_by_value(line)
        except RecursionError:
            return Broken("too_deep", broken_text(line))
        except msgspec.DecodeError:
            return Broken("not_json", broken_text(line))

    def _value_by_value(self, line: bytes) -> Any:
        """The record with each value that cannot be decoded as its text."""
        try:
            raw = self._raw_decoder.decode(line)
        except msgspec.DecodeError:
            return self._nothing
        record = type(self._nothing)()
        for field in self._fields.values():
            text = bytes(getattr(raw, field))
            if text:
                setattr(record, field, _value_or_text(text))
        return record

    def _chunk(self, records: list[Any]) -> Chunk:
        broken = first_broken(records)
        if broken is not None:
            records = [self._nothing if isinstance(record, Broken) else record for record in records]
        tops = {name: [getattr(record, field) for record in records] for name, field in self._fields.items()}
        values: dict[str, Any] = {}
        for name, (top, *inner) in self._paths.items():
            values[name] = list(map(JsonPath(tuple(inner)).of, tops[str(top)])) if inner else tops[str(top)]
        return Chunk(values, broken)


def _is_object_a_line(lines: bytes) -> bool:
    """Whether each line begins with `{` and ends with `}`: no JSON value has a line end between the two, so that of as
    many objects as lines each has its own.
    """
    count = _count_lines(lines)
    ends = lines.count(b"}\n") + lines.count(b"}\r\n") + lines.endswith(b"}")
    return lines.startswith(b"{") and lines.count(b"\n{") == count - 1 and ends == count


def _count_lines(lines: bytes) -> int:
    return lines.count(b"\n") + (not lines.endswith(b"\n"))


def names_in(lines: bytes, most: int) -> list[str]:
    """The names of the fields of the first lines (at most `most`), in order; one that is not an object has none."""
    names: dict[str, None] = {}
    for line in lines.removeprefix(codecs.BOM_UTF8).split(b"\n", most)[:most]:
        try:
            names |= dict.fromkeys(msgspec.json.decode(line, type=dict[str, msgspec.Raw]))
        except BAD_JSON:
            continue
    return list(names)


def _value_or_text(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except BAD_JSON:
        return text.decode()
