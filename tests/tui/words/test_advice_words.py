"""What `wmtop advise` says of the delay that a lateness costs."""

from wmtop.engine.verdict.recommendation import Advice, LatenessOutcome
from wmtop.tui.words.lateness import advice_lines

MINUTE, DAY = 60_000, 86_400_000


def lines(recommended: LatenessOutcome, current: LatenessOutcome | None) -> list[str]:
    advice = Advice(0.999, None, 10_000, recommended, False, current, None, None, False, None)
    return list(advice_lines(advice))


def outcome(lateness_ms: int, delay_ms: float | None) -> LatenessOutcome:
    return LatenessOutcome(lateness_ms, 5, 0.0005, 0.0002, 0.001, delay_ms)


def test_the_recommended_lateness_is_compared_with_the_one_in_force() -> None:
    longer, now = outcome(10 * MINUTE, 40 * MINUTE), outcome(5 * MINUTE, 35 * MINUTE)
    first, second, _ = lines(longer, now)
    assert first.endswith("results 5m later than now")
    assert second.endswith("results 35m after their window's end")
    assert lines(now, longer)[0].endswith("results 5m earlier than now")


def test_of_old_data_the_time_since_the_end_of_a_window_is_not_said() -> None:
    longer, now = outcome(10 * MINUTE, 60 * DAY + 5 * MINUTE), outcome(5 * MINUTE, 60 * DAY)
    assert [("results" in line) for line in lines(longer, now)] == [True, False, False]
    assert "results" not in lines(longer, None)[0]
    assert "results" not in lines(outcome(MINUTE, None), now)[0]
