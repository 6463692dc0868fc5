"""A JobManager whose clock differs from ours, and answers that a cache repeats."""

import pytest
from wmtop.engine.system.rest import RestError
from wmtop.engine.targets.flink.watch import CACHED_AFTER_MS, Answers

SECOND, HOUR = 1_000, 3_600_000
NOW = 1_700_000_000_000


@pytest.mark.parametrize("offset_ms", [-HOUR, -40 * SECOND, 40 * SECOND, HOUR])
def test_each_answer_shows_the_jobmanagers_clock(offset_ms: int) -> None:
    answers = Answers()
    answers.see(NOW + offset_ms, NOW - 5, NOW + 5)
    assert answers.clock.offset.ms == pytest.approx(offset_ms, abs=10)
    assert answers.clock.offset.is_measured
    assert not answers.see(NOW + offset_ms + SECOND, NOW + SECOND - 5, NOW + SECOND + 5)


def test_a_clock_that_is_set_is_noticed() -> None:
    answers = Answers()
    for second in range(5):
        assert not answers.see(NOW + second * SECOND, NOW + second * SECOND - 3, NOW + second * SECOND)
    assert answers.see(NOW - HOUR, NOW + 5 * SECOND - 3, NOW + 5 * SECOND)
    assert not answers.see(NOW - HOUR + SECOND, NOW + 6 * SECOND - 3, NOW + 6 * SECOND)


def test_the_same_time_again_and_again_shows_a_cache() -> None:
    answers = Answers()
    for second in range(CACHED_AFTER_MS // SECOND):
        answers.see(NOW, NOW + second * SECOND, NOW + second * SECOND + 3)
    with pytest.raises(RestError, match=r"(?=.*cache)(?=.*21s)"):
        answers.see(NOW, NOW + 21 * SECOND + 5, NOW + 21 * SECOND + 8)
    answers.see(NOW + 22 * SECOND, NOW + 22 * SECOND - 3, NOW + 22 * SECOND)
