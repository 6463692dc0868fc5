"""What `wmtop advise` says of the delay that a lateness costs."""

from wmtop.engine.snapshot.recommendation import Advice, LatenessOutcome, Recommendation
from wmtop.engine.text.codes import recommended_line
from wmtop.tui.words.lateness import advice_lines

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
FOUND = Recommendation(0.999, 10 * MINUTE, HOUR, 10_000, 5, 0.0002, 0.001, 40.0 * MINUTE)


def lines(recommended: LatenessOutcome, current: LatenessOutcome | None) -> list[str]:
    return list(advice_lines(Advice(FOUND, recommended, current, None, None, False, None)))


def outcome(lateness_ms: int, delay_ms: float | None) -> LatenessOutcome:
    return LatenessOutcome(lateness_ms, 5, 0.0005, 0.0002, 0.001, delay_ms)


def test_the_recommended_lateness_is_compared_with_the_one_in_force() -> None:
    longer, now = outcome(10 * MINUTE, 40.0 * MINUTE), outcome(5 * MINUTE, 35.0 * MINUTE)
    first, second = lines(longer, now)
    assert first.strip() == recommended_line(FOUND)
    assert second.endswith("with 10m results come 5m later)")
    assert lines(now, longer)[1].endswith("with 5m results come 5m earlier)")
    assert "results come" not in lines(outcome(MINUTE, None), now)[1]


def test_the_line_has_value_evidence_and_delay() -> None:
    line = recommended_line(FOUND)
    for fact in ("10m", "99.9 %", "5 of 10,000", "last 1h", "0.02–0.1 %", "results 40m after"):
        assert fact in line
