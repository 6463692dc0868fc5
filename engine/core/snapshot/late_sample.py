"""The last late records that `--late-output` keeps."""

from msgspec import Struct


class LateRecord(Struct, frozen=True):
    """A dropped record as in the late output: its batch, and the columns `wmtop_*` (ms).

    `watermark_ms` and `late_by_ms` are None after the end of the stream, `window_end_ms` between windows. `topic`,
    `partition` and `offset` are known only for a record from Kafka.
    """

    batch: int
    channel: str
    time_ms: int
    watermark_ms: int | None = None
    window_end_ms: int | None = None
    late_by_ms: int | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
