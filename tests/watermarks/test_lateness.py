"""Buckets and the recommended lateness."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wmtop.engine.watermarks.lateness import bucket_edges, bucket_of, recommended_lateness_ms

from .examples import examples

DAY = 86_400_000


def test_the_edges_are_the_tuning_ladder_and_the_runs_own_lateness() -> None:
    edges = bucket_edges(4_321)
    assert edges[:8] == [0, 1, 2, 3, 5, 7, 10, 20]
    assert {4_321, 1_000, 30_000, 60_000, 1_800_000, 3_600_000, 7_200_000, DAY} <= set(edges)
    assert edges[-1] == 30 * DAY
    assert edges == sorted(set(edges))


@examples(200)
@given(st.integers(-10, 40 * DAY), st.integers(0, 40 * DAY))
@example(0, 0)
@example(30 * DAY, 0)
def test_buckets_are_closed_on_the_left(distance: int, own: int) -> None:
    edges = bucket_edges(own)
    bucket = bucket_of(edges, distance)
    if distance < 0:
        assert bucket is None
    else:
        assert bucket is not None
        assert edges[bucket] <= distance
        assert bucket + 1 == len(edges) or distance < edges[bucket + 1]


@pytest.mark.parametrize(
    ("completeness", "recommended"),
    [(0.0, 0), (0.90, 0), (0.95, 10), (0.977, 20), (0.99, 20), (0.995, 30), (1.0, None)],
)
def test_the_recommended_lateness_is_the_smallest_that_is_complete_enough(
    completeness: float, recommended: int | None
) -> None:
    assert recommended_lateness_ms([0, 10, 20, 30], [100, 50, 10, 1], 1_000, completeness) == recommended


def test_nothing_is_recommended_without_records() -> None:
    assert recommended_lateness_ms([0, 10], [0, 0], 0, 0.99) is None


def test_an_exact_share_is_enough_however_many_records() -> None:
    """`(1 - 0.9) * 10**9` is 99999999.99999998 in floating point."""
    assert recommended_lateness_ms([0, 10], [10**9, 0], 10**12, 0.999) == 0
    assert recommended_lateness_ms([0, 10], [10**9 + 1, 0], 10**12, 0.999) == 10
    assert recommended_lateness_ms([0, 10], [10**8, 0], 10**9, 0.9) == 0
