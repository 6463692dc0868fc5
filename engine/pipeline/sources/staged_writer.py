"""Writes the files that `staged` reads: rows as they come, in order of arrival."""

# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (pyarrow is only partly typed.)

from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from .base import CHANNEL
from .staged import ARRIVALS, BATCH_ROWS, NAMES, PREFIX, ROWS


class StagedWriter:
    """Writes tables of rows one after the other; only the rows of an unfinished IPC batch are held."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._arrivals: IO[bytes] = (directory / ARRIVALS).open("wb")
        self._head(0)
        self._sink: Any = None
        self._writer: Any = None
        self._waiting: list[Any] = []
        self._numbers: dict[str, int] = {}
        self._known: Any = None
        self._codes: NDArray[np.int32] | None = None
        self.rows = 0

    def __enter__(self) -> "StagedWriter":
        return self

    def add(self, table: Any, arrivals: "NDArray[np.int64]") -> None:
        """Add rows in order of arrival; only one table may have dictionaries besides that of the channels."""
        self._arrivals.write(np.ascontiguousarray(arrivals).data)
        self.rows += table.num_rows
        for batch in self._numbered(table).to_batches():
            self._add(batch)

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self._write(self._waiting)
            self._head(self.rows)
            if self._numbers:
                with (
                    pa.OSFile(str(self._directory / NAMES), "wb") as sink,
                    pa.ipc.new_file(sink, pa.schema([(CHANNEL, pa.string())])) as writer,
                ):
                    writer.write_table(pa.table({CHANNEL: pa.array(list(self._numbers), pa.string())}))
        if self._writer is not None:
            self._writer.close()
            self._sink.close()
        self._arrivals.close()

    def _head(self, rows: int) -> None:
        """Write the head of the array of arrivals, which has the same length for any number of rows."""
        self._arrivals.seek(0)
        np.lib.format.write_array_header_1_0(
            self._arrivals, {"descr": np.dtype(np.int64).str, "fortran_order": False, "shape": (rows,)}
        )

    def _numbered(self, table: Any) -> Any:
        """The table with numbers of names instead of channels: dictionaries differ from part to part."""
        at = table.schema.get_field_index(PREFIX + CHANNEL)
        if at < 0:
            return table.combine_chunks()
        channels: Any = table.column(at).unify_dictionaries().combine_chunks()
        channels = channels.chunk(0) if isinstance(channels, pa.ChunkedArray) else channels
        if self._known is None or not self._known.equals(channels.dictionary):
            self._known = channels.dictionary
            numbers = self._numbers
            codes = [numbers.setdefault(name, len(numbers)) for name in channels.dictionary.to_pylist()]
            self._codes = None if codes == list(range(len(codes))) else np.array(codes, np.int32)
        codes = channels.indices
        if self._codes is not None:
            codes = pa.array(self._codes[codes.to_numpy()])
        return table.set_column(at, PREFIX + CHANNEL, codes).combine_chunks()

    def _add(self, batch: Any) -> None:
        """Write as many full IPC batches as there are."""
        at, held = 0, sum(map(len, self._waiting))
        while held + len(batch) - at >= BATCH_ROWS:
            part = batch.slice(at, BATCH_ROWS - held)
            at += len(part)
            self._write([*self._waiting, part])
            self._waiting, held = [], 0
        if at < len(batch):
            self._waiting.append(batch.slice(at))

    def _write(self, batches: list[Any]) -> None:
        if not batches:
            return
        if self._writer is None:
            self._sink = pa.OSFile(str(self._directory / ROWS), "wb")
            self._writer = pa.ipc.new_file(self._sink, batches[0].schema)
        rows = pa.Table.from_batches(batches).combine_chunks()
        self._writer.write_table(rows)
