"""The files of a batch by Spark's log are those that its frame has."""

from pathlib import Path
from typing import TYPE_CHECKING

from wmtop.engine.run.sources.base import Batch
from wmtop.engine.run.sources.files import files_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAMES = ["a b.bin", "50%25.bin", "naïve.bin", "a+b.bin", "#.bin", *(f"{number}.bin" for number in range(15))]
"""Names that a URI writes differently, and enough files for an entry of Spark's log that has all before it."""


def test_every_batch_has_the_files_of_its_frame(spark: "SparkSession", tmp_path: Path) -> None:
    files, checkpoint = tmp_path / "my files", tmp_path / "checkpoint"
    files.mkdir()
    for size, name in enumerate(NAMES):
        (files / name).write_bytes(b"x" * size)
    seen: dict[int, tuple[list[tuple[str, int]], list[tuple[str, int]] | None]] = {}

    def look(frame: "DataFrame", batch: int) -> None:
        rows = [(row["path"].removeprefix("file:"), row["length"]) for row in frame.collect()]
        begins = offsets(batch - 1) if batch else []
        seen[batch] = rows, files_of(Batch(frame, 0, offsets(batch), begins, checkpoint / "sources" / "0"))

    def offsets(batch: int) -> list[str]:
        return (checkpoint / "offsets" / str(batch)).read_text().splitlines()[2:]

    schema = "path string, modificationTime timestamp, length bigint, content binary"
    source = spark.readStream.format("binaryFile").schema(schema).option("maxFilesPerTrigger", "2")
    frame = source.load(f"file://{files}").select("path", "length")
    for later in ("", "later.bin"):
        if later:
            (files / later).write_bytes(b"xyz")
        writer = frame.writeStream.foreachBatch(look).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
    assert len(seen) == 11
    for rows, logged in seen.values():
        assert logged is not None
        assert sorted(logged) == sorted(rows)
    found = {Path(path).name for rows, _ in seen.values() for path, _ in rows}
    assert found == {*NAMES, "later.bin"} - {NAMES[0]}  # which is empty
    (files / NAMES[1]).unlink()
    gone = next(batch for batch, (rows, _) in seen.items() if any(path.endswith(NAMES[1]) for path, _ in rows))
    again = Batch(None, 0, offsets(gone), offsets(gone - 1) if gone else [], checkpoint / "sources" / "0")  # pyright: ignore
    assert files_of(again) is None


def test_a_log_that_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    assert files_of(Batch(None, 0, ['{"logOffset":0}'], [], tmp_path)) is None  # pyright: ignore
    assert files_of(Batch(None, 0, ['{"logOffset":0}'], None, tmp_path)) is None  # pyright: ignore
