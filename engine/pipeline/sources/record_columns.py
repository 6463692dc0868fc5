"""Columns of a record besides the canonical ones: the whole record, and values to explain lateness by."""

from msgspec import Struct

RECORD, EXPLAINED = "record", "explained"
"""`record` struct: all columns of the source, if each row has them (a replay looks them up); `explained` array<string>:
the values of the columns of `--explain`, in their order, null if missing.
"""

EXPLAIN = "explain"
"""Prefix of the number of a column of `--explain`, if each value is a separate column."""


class RecordColumns(Struct, frozen=True):
    """Whether late records are kept as a whole (`--late-output`), and the columns of `--explain`."""

    whole: bool = False
    explain: tuple[str, ...] = ()


NOTHING_MORE = RecordColumns()
