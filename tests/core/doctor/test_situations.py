"""The scored table: in every situation what must be found is found, and nothing else; a healthy one has no findings."""

import pytest

from .situations import SITUATIONS
from .streams import MINUTE, SECOND


def test_the_table_is_large_enough() -> None:
    assert len(SITUATIONS) >= 40
    assert sum(one.healthy for one in SITUATIONS.values()) >= 12


@pytest.mark.parametrize("name", SITUATIONS)
def test_situation(name: str) -> None:
    situation = SITUATIONS[name]
    found = {finding.code for finding in situation.build().findings(**situation.reader)}
    assert found >= situation.must
    assert found <= situation.must | situation.may


def test_a_lagging_channel_is_not_blamed_for_the_lag_of_a_silent_one() -> None:
    [silent, lagging] = SITUATIONS["one_dead_partition_and_one_far_behind"].build().findings()
    assert (silent.channels, lagging.channels) == (("d",), ("c",))
    assert abs(getattr(lagging, "behind_ms") - 5 * MINUTE) < 10 * SECOND  # noqa: B009
