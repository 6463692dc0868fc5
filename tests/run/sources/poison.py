"""Files with rows that cannot be read: how many rows each has, how many are malformed, and the first of them."""

import gzip
import io
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

DEEP = 10_000
GOOD_S = 1_700_000_000


class Poison(NamedTuple):
    """A file's content; `row`: the number of the first malformed row."""

    suffix: str
    content: bytes
    rows: int
    malformed: int
    row: int
    why: str


def csv(*lines: str | bytes, head: bytes = b"at,who,note") -> bytes:
    return b"\n".join([head, *[line.encode() if isinstance(line, str) else line for line in lines], b""])


def parquet(table: Any, **options: Any) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def table(rows: int) -> Any:
    return pa.table({"at": pa.array(range(GOOD_S, GOOD_S + rows)), "who": ["a"] * rows, "note": ["x"] * rows})


def with_a_damaged_page(column: int = 0) -> bytes:
    """Three row groups of ten rows; the second one's values of a column cannot be read."""
    content = bytearray(parquet(table(30), row_group_size=10, use_dictionary=False, compression="none"))
    page = pq.ParquetFile(io.BytesIO(bytes(content))).metadata.row_group(1).column(column).data_page_offset
    content[page : page + 40] = b"\xff" * 40
    return bytes(content)


def not_utf_8() -> bytes:
    """Text columns with bytes that are not UTF-8."""
    offsets, data = pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")
    values = pa.StringArray.from_buffers(2, offsets, data)
    return parquet(pa.table({"at": values, "who": values, "note": values}))


def nested(depth: int, rows: int) -> Any:
    values: Any = pa.array([1] * rows)
    for _ in range(depth):
        values = pa.StructArray.from_arrays([values], ["a"])
    return values


ROW = f"{GOOD_S},a,x"
OPEN = f'{GOOD_S},"a,x'
LINE = b'{"at": %d, "who": "a", "note": "x"}' % GOOD_S
JSON = {
    "not UTF-8": (b'{"at": %d, "who": "\xff"}' % GOOD_S, "not_utf8"),
    "not UTF-8 in another field": (b'{"at": %d, "else": "\xff"}' % GOOD_S, "not_utf8"),
    "deep": (b'{"at": ' + b"[" * DEEP + b"]" * DEEP + b"}", "too_deep"),
    "deep in another field": (
        b'{"at": %d, "else": ' % GOOD_S + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
        "too_deep",
    ),
    "NaN": (b'{"at": NaN}', "not_json"),
    "Infinity": (b'{"at": -Infinity}', "not_json"),
    "a float of no size": (b'{"at": 1e999}', "out_of_range"),
    "an integer of 10,000 digits": (b'{"at": ' + b"1" * 10_000 + b"}", "out_of_range"),
    "NUL bytes": (b"\0" * 50, "not_json"),
    "NUL in text": (b'{"at": "\0"}', "not_json"),
    "two objects": (LINE + LINE, "not_json"),
    "a lone surrogate": (b'{"at": "\\ud800"}', "not_json"),
    "an array": (b"[1]", "missing"),
    "a time out of range": (b'{"at": "99999-01-01T00:00:00Z"}', "no_time"),
    "a part of an object": (b'{"at": 17', "not_json"),
}
POISON = {
    "a quote that never closes": Poison("csv", csv(*[ROW] * 3, OPEN, *[ROW] * 50_000), 50_004, 1, 4, "open_quote"),
    "a quote that closes 50,000 rows later": Poison(
        "csv", csv(ROW, OPEN, *[ROW] * 50_000, f'{GOOD_S},a",x'), 50_003, 1, 2, "open_quote"
    ),
    "a quote beside a field of several lines": Poison(
        "csv", csv(f'{GOOD_S},a,"x\ny\r\nz"', OPEN, f'{GOOD_S},a,"x\n,y"'), 3, 1, 2, "open_quote"
    ),
    "a field of 256 KB beside a ragged row": Poison(
        "csv", csv(f"{GOOD_S},a," + "x" * (1 << 18), f"{GOOD_S}", "never"), 3, 1, 3, "no_time"
    ),
    "a header of another file": Poison("csv", csv("1,2", "3,4", head=b"x,y"), 2, 2, 1, "missing"),
    "an open header": Poison("csv", csv("1,2", "3,4", head=b'"at,who'), 2, 2, 1, "missing"),
    "CSV in UTF-16": Poison("csv", f"at,who\n{ROW}\n{ROW}\n".encode("utf-16"), 2, 2, 1, "not_utf8"),
    "CSV that ends too soon": Poison(
        "csv.gz", gzip.compress(csv(ROW, f"{GOOD_S},a,{bytes(range(35, 127)).decode()}"))[:-30], 2, 1, 2, "damaged"
    ),
    **{f"JSON: {name}": Poison("jsonl", b"\n".join([LINE, b"", line, LINE, b""]), 3, 1, 2, why)
       for name, (line, why) in JSON.items()},
    "JSON with a mark and CRLF": Poison(
        "jsonl", b"\xef\xbb\xbf" + LINE + b"\r\n\r\n" + LINE + b"\r\nx\r\n", 3, 1, 3, "not_json"
    ),
    "JSON in UTF-16": Poison("jsonl", b'{"at": 1}\n{"at": 2}\n'.decode().encode("utf-16"), 2, 2, 1, "not_utf8"),
    "no Parquet": Poison("parquet", b"at,who\n1,2\n", 1, 1, 1, "damaged"),
    "half of a Parquet file": Poison("parquet", parquet(table(30))[:500], 1, 1, 1, "damaged"),
    "a damaged page": Poison("parquet", with_a_damaged_page(), 30, 10, 11, "damaged"),
    "damaged pages of other columns": Poison("parquet", with_a_damaged_page(2), 30, 0, 0, ""),
    "another schema": Poison("parquet", parquet(pa.table({"else": [1, 2]})), 2, 2, 1, "missing"),
    "other types": Poison(
        "parquet", parquet(pa.table({"at": [[1]], "who": [b"\xff"], "note": [{"a": 1}]})), 1, 1, 1, "no_time"
    ),
    "times out of range": Poison(
        "parquet", parquet(pa.table({"at": pa.array([0, 2**62], pa.timestamp("ms"))})), 2, 1, 2, "out_of_range"
    ),
    "Parquet text that is not UTF-8": Poison("parquet", not_utf_8(), 2, 2, 1, "no_time"),
    "nested": Poison("parquet", parquet(pa.table({"at": nested(50, 3), "who": nested(50, 3)})), 3, 3, 1, "no_time"),
    "nested too deep": Poison("parquet", parquet(pa.table({"at": nested(500, 3)})), 1, 1, 1, "damaged"),
}  # fmt: skip
GOOD = {"csv": csv(ROW, ROW), "jsonl": LINE + b"\n" + LINE + b"\n", "parquet": parquet(table(2))}
"""The first file of each kind, which defines the columns."""
