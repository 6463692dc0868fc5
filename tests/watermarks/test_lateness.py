"""Buckets of lateness."""

from hypothesis import example, given
from hypothesis import strategies as st
from wmtop.engine.watermarks.lateness import bucket_edges, bucket_of

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
