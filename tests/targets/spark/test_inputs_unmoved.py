"""Batches with new input that left the watermark as it was: by the offsets in a checkpoint, else by reported rows."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from wmtop.engine.targets.spark.checkpoint import CheckpointTap
from wmtop.engine.targets.spark.facts import BatchProgress, QueryFacts, QueryProgress, QueryStarted, SourceProgress
from wmtop.engine.targets.spark.inputs import Unmoved, unmoved_of
from wmtop.engine.targets.spark.queries import Queries

T = 1_700_000_000_000


def written(path: Path, batches: list[tuple[int, str, str]], committed: int, next_ms: int) -> None:
    """A checkpoint of two sources: of each batch the watermark in force and the sources' offsets."""
    for log in ("offsets", "commits"):
        (path / log).mkdir(parents=True)
    (path / "metadata").write_text('{"id": "0"}')
    for number, (watermark_ms, first, second) in enumerate(batches):
        facts = {"batchTimestampMs": T + 2_000 * number, "batchWatermarkMs": watermark_ms}
        (path / "offsets" / str(number)).write_text("\n".join(["v1", json.dumps(facts), first, second]))
    for number in range(committed + 1):
        after = batches[number + 1][0] if number + 1 < len(batches) else next_ms
        (path / "commits" / str(number)).write_text(f'v1\n{{"nextBatchWatermarkMs": {after}}}')


FILES = '{{"logOffset":{}}}'.format


@pytest.mark.parametrize(
    ("watermarks", "second", "committed", "expected"),
    [
        ([0, T, T, T, T], [0, 0, 0, 0, 0], 4, Unmoved(4, (4, 0))),
        ([0, T, T, T, T], [0, 1, 1, 2, 2], 4, Unmoved(4, (4, 2))),
        ([0, T, T, T, T], [0, 0, 0, 0, 0], 3, Unmoved(3, (3, 0))),  # the last one runs: it may advance it
        ([0, T, T + 1, T + 1, T + 2], [0, 0, 0, 0, 0], 4, Unmoved(0, (0, 0))),
        ([0, 0, 0, 0, 0], [0, 0, 0, 0, 0], 4, Unmoved()),
    ],
)
def test_only_batches_that_read_and_ended_count(
    tmp_path: Path, watermarks: list[int], second: list[int], committed: int, expected: Unmoved
) -> None:
    batches = [(ms, FILES(n), FILES(other)) for n, (ms, other) in enumerate(zip(watermarks, second, strict=True))]
    moves = watermarks[-1] == T + 2
    written(tmp_path, batches, committed, T + 3 if moves else watermarks[-1])
    facts = CheckpointTap(tmp_path).poll()
    level = facts.watermark_ms if facts.next_watermark_ms is None else facts.next_watermark_ms
    assert unmoved_of(QueryFacts(checkpoint=facts), level) == expected


def test_a_batch_without_new_offsets_has_read_nothing(tmp_path: Path) -> None:
    batches = [(0, FILES(0), "-"), (T, FILES(0), "-"), (T, FILES(1), FILES(0)), (T, FILES(1), FILES(0))]
    written(tmp_path, batches, 3, T)
    assert unmoved_of(QueryFacts(checkpoint=CheckpointTap(tmp_path).poll()), T) == Unmoved(1, (1, 1))


def test_without_a_checkpoint_the_reported_rows_count() -> None:
    queries = Queries()
    queries.apply(QueryStarted("i", "r"))
    for number, (second, rows) in enumerate([(None, 5), (10, 5), (10, 0), (10, 2)]):
        progress = BatchProgress(
            "i", "r", number, timestamp=f"2026-01-01T00:01:0{number}.000Z",
            event_time={} if second is None else {"watermark": f"2026-01-01T00:00:{second}.000Z"},
            sources=(SourceProgress(num_input_rows=rows),),
        )  # fmt: skip
        queries.apply(QueryProgress(progress))
    [run] = queries.facts()
    report: Any = SimpleNamespace(run=run)
    assert run.progress is not None
    assert run.progress.watermark_ms is not None
    assert unmoved_of(QueryFacts(report=report), run.progress.watermark_ms) == Unmoved(2)
    assert unmoved_of(QueryFacts(report=report), run.progress.watermark_ms + 1) == Unmoved(0)
    assert unmoved_of(QueryFacts(report=report), None) == Unmoved()
