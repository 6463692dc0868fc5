"""The status line, the first of every screen. Pure."""

from datetime import tzinfo

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from .kinds import presenter_of
from .progress import in_flight, share_read
from .spans import Part, part
from .state import Condition


def status_parts(snapshot: Snapshot, now: Condition, zone: tzinfo | None) -> list[Part]:
    """Name, state, batch, rates, clock and speed."""
    spark = snapshot.spark
    source = snapshot.source
    parts = [
        part((" ", "text")),
        part(("wmtop  ", "accent"), rank=4, gap=""),
        part((name(snapshot.name), "strong"), gap=""),
        part(("● ", now.style), (now.word, now.style), gap="  "),
    ]
    if (whose := presenter_of(snapshot).identity()) is not None:
        parts.append(part((f.label(whose, 40), "dim"), rank=6, gap="  "))
    if snapshot.batch is not None:
        parts.append(part((f"batch {snapshot.batch:,}", "text"), rank=3, gap="  "))
    if (running := in_flight(snapshot)) is not None:
        parts.append(part((running, "text"), rank=3, gap=", "))
    if spark.batch_ms is not None:
        parts.append(part((f"{spark.batch_ms / 1000:.2f} s", "text"), rank=5, gap=" · "))
    if spark.input_rows_per_second is not None:
        parts.append(part((f"{f.rate(spark.input_rows_per_second)} rows/s", "text"), rank=2, gap=" · "))
    if (read := share_read(snapshot)) is not None:
        parts.append(part((read, "text"), rank=6, gap=" · "))
    if snapshot.now_ms is not None:
        parts.append(part((f.stamp(snapshot.now_ms, zone), "text"), rank=1, right=True))
    if source and source.speed is not None:
        parts.append(part((f"×{source.speed:g}", "dim"), rank=3, right=True, gap="  "))
    parts.append(part((" ", "text"), right=True, gap=""))
    return parts
