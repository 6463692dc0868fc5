"""What a tap has counted, by hand: rows in buckets of event time, against the clock that they meet."""

from wmtop.engine.targets.spark.tapped import LatenessCounts, TappedInput, _Lateness

START = 1_700_000_000_000


def late_at(input: TappedInput, delay_ms: int) -> int:
    counts = input.facts().lateness
    assert counts is not None
    return rows_at(counts, delay_ms)


def rows_at(counts: LatenessCounts, delay_ms: int) -> int:
    return counts.spark[counts.delays_ms.index(delay_ms)]


def test_after_a_restart_rows_behind_the_old_watermark_are_late() -> None:
    """The run before had reached START + 60 s; this one begins with rows far behind that, and one bucket near it."""
    buckets = {START: 7, START + 58_000: 3}
    fresh, restarted = _Lateness(1_000), _Lateness(1_000)
    fresh.count(buckets, None, None, 0)
    restarted.count(buckets, START + 60_000, None, 0)
    counts = restarted.facts(barrel=False)
    assert rows_at(fresh.facts(barrel=False), 10_000) == 0
    assert (rows_at(counts, 10_000), rows_at(counts, 1_000)) == (7, 10)


def test_rows_that_the_sketch_of_a_batch_lacks_count_as_late() -> None:
    """The count is an upper bound: a batch whose sketch came damaged or not at all must not pass for one on time."""
    input = TappedInput("t")
    columns: dict[str, object] = {"nulls": 0, "bucket_ms": 1_000, "min_ms": START, "max_ms": START}
    for batch, rows in enumerate((2, 1, 15)):
        input.begin()
        input.apply(batch, None, columns | {"rows": rows})
    assert late_at(input, 10_000) == 15
