"""What a run wants of each record beside the canonical columns: the whole record, and values to explain lateness by."""

from msgspec import Struct

RECORD, EXPLAINED = "record", "explained"
"""`record` struct: all columns of the source, where it carries them with each row (a replay looks them up);
`explained` array<string>: the values of the columns of `--explain`, in their order, null if missing."""

STAMPED = "stamped"
"""bigint, null if missing: the time (ms) that a Kafka record carries beside its event time."""

EXPLAIN = "explain"
"""Before the number of a column of `--explain`, where each value is a column of its own."""


class RecordColumns(Struct, frozen=True):
    """Whether late records are kept as a whole (`--late-output`), and the columns of `--explain`."""

    whole: bool = False
    explain: tuple[str, ...] = ()


NOTHING_MORE = RecordColumns()
