"""`check --fail-if`: what is true, what is false, what cannot be told, and what is refused in one line."""

import pytest
from msgspec.structs import replace
from wmtop.engine.doctor import diagnose
from wmtop.engine.snapshot import Totals, Verdict, VerdictName
from wmtop.tui.words.check import FACTS, CheckInput, Fact, evaluate, facts_of, parse_fail_if, reason_of
from wmtop.tui.words.fact_values import AtLeast, Value

from ...doctor.patients import SECOND, before, channel, healthy
from .. import attached

VIEWS = [channel("a", backlog=None), channel("a1", 20 * SECOND, backlog=None), channel("b", state="idle", backlog=None)]
SNAPSHOT = healthy(VIEWS, totals=Totals(records=200_000, late=4_000))
"""2 % late, a1 20 s behind a, b idle, the backlog not known."""


def given(verdict: VerdictName = "moving") -> CheckInput:
    snapshot = SNAPSHOT if verdict == "moving" else replace(SNAPSHOT, verdict=Verdict(verdict))
    past = before(snapshot)
    return CheckInput(snapshot, past, verdict, diagnose(snapshot, past))


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("late_share > 1%", True),
        ("late_share>1%", True),
        ("late_share > 0.03", False),
        ("late_share >= 2%", True),
        ("idle == 1", True),
        ("idle != 1", False),
        ("idle < 1", False),
        ("behind_fastest >= 20s", True),
        ("behind_fastest > 20s1ms", False),
        ("level_lag > 10s and late_share > 1%", True),
        ("level_lag > 1d and late_share > 1%", False),
        ("level_lag > 1d or late_share > 1%", True),
        ("level_lag > 1d and late_share > 1% or idle <= 1", True),  # and binds more tightly
        ("idle <= 1 or level_lag > 1d and late_share > 1%", True),
        ("state == live", True),
        ("state != live", False),
        ("verdict == moving", True),
        ("speed > 0.5", True),
        ("findings == 0", True),
        ("stalled_for > 0s", False),
        ("backlog > 5", None),
        ("backlog > 5 or late_share > 1%", True),
        ("backlog > 5 and late_share > 50%", False),
        ("backlog > 5 and late_share > 1%", None),
        ("channel[a].lag > 15s", False),
        ("channel[a1].lag > 15s", True),
        ("channel[a.?].lag > 15s", True),
        ("channel[[ab]1?].lag > 15s and idle > 0", True),
        ("channel[nobody].lag > 0s", None),
    ],
)
def test_a_condition(text: str, met: bool | None) -> None:
    assert evaluate(parse_fail_if(text), given()).met is met


@pytest.mark.parametrize(
    ("text", "met"),
    [
        ("stalled_for > 4m", True),
        ("stalled_for >= 5m", True),
        ("stalled_for > 5m", None),
        ("stalled_for > 6m", None),
        ("stalled_for < 5m", False),
        ("stalled_for < 6m", None),
        ("stalled_for <= 4m", False),
        ("stalled_for <= 5m", None),
        ("stalled_for == 4m", False),
        ("stalled_for != 4m", True),
        ("stalled_for == 5m", None),
        ("stalled_for == 6m", None),
        ("stalled_for > 6m or late_share > 1%", True),
        ("stalled_for > 6m and late_share > 50%", False),
    ],
)
def test_a_lower_bound_decides_only_what_every_value_above_it_would(
    text: str, met: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FACTS, "stalled_for", Fact("duration", lambda given: AtLeast(300 * SECOND)))
    outcome = evaluate(parse_fail_if(text), given())
    assert outcome.met is met
    assert met is not None or "at least 5m" in outcome.words


@pytest.mark.parametrize(
    ("unread", "text", "met"),
    [
        ((3, 4), "backlog > 6", True),
        ((3, 4), "backlog > 7", False),
        ((3, None), "backlog > 2", True),
        ((3, None), "backlog > 3", None),
        ((0, None), "backlog > 0", None),
    ],
)
def test_a_part_of_the_backlog_is_a_lower_bound(unread: tuple[int | None, ...], text: str, met: bool | None) -> None:
    """`0` of those partitions whose unread records are known would be an all-clear for the others."""
    views = [channel(name, backlog=count) for name, count in zip("ab", unread, strict=False)]
    seen = CheckInput(healthy(views), [], "moving", [])
    assert evaluate(parse_fail_if(text), seen).met is met
    assert (facts_of(seen)["backlog"] is None) is (unread == (0, None))


def test_without_a_verdict_it_is_neither_this_nor_that() -> None:
    for text in ("verdict == moving", "verdict != moving", "stalled_for > 1s", "speed < 1"):
        assert evaluate(parse_fail_if(text), given("unknown")).met is None
    assert evaluate(parse_fail_if("verdict == unknown"), given("unknown")).met is True


def test_what_is_true_is_named_with_its_numbers_and_what_is_not_known_by_its_name() -> None:
    assert "20s" in evaluate(parse_fail_if("idle > 3 or behind_fastest > 10s"), given()).words
    assert evaluate(parse_fail_if("backlog > 5 or backlog_time > 5s"), given()).words == "backlog, backlog_time"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("level_lags > 10m", "level_lag"),
        ("nothing > 10m", "late_share_recent"),
        ("level_lag", "'level_lag'"),
        ("level_lag > 10", "'10'"),
        ("level_lag > 10m and", "''"),
        ("level_lag > 10m late_share > 1%", "'late_share'"),
        ("level_lag ~ 10m", "~"),
        ("idle > 5%", "%"),
        ("idle > many", "'many'"),
        ("late_share > much", "'much'"),
        ("late_share > 1", "1 stands for 100 %"),
        ("late_share > 2", "2 stands for 200 %"),
        ("late_share > 101%", "100 %"),
        ("state > live", "=="),
        ("state == lively", "'lively'"),
        ("channel[a].rate > 5", "'rate'"),
        ("channel[(].lag > 5s", "'('"),
    ],
)
def test_bad_conditions_are_one_line_with_the_offending_value(text: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - what it says is the point
        parse_fail_if(text)
    message = str(caught.value)
    assert "\n" not in message
    assert said in message or not said.strip("'")


def test_what_is_not_known_is_none_and_never_zero() -> None:
    bare = replace(SNAPSHOT, verdict=Verdict(), channels=[], totals=Totals(None, None, None, None, None, None))
    facts = facts_of(CheckInput(bare, [], "unknown", []))
    assert set(facts) == set(FACTS)
    for name in ("late_share", "late_share_recent", "idle", "catching_up", "backlog", "backlog_time", "speed"):
        assert facts[name] is None


@pytest.mark.parametrize(
    ("verdict", "facts"),
    [
        ("stalled", (65 * SECOND, 65 * SECOND, 0)),
        ("waiting", (65 * SECOND, 0, 65 * SECOND)),
        ("moving", (65 * SECOND, 0, 0)),
        ("ended", (65 * SECOND, 0, 0)),
        ("unknown", (65 * SECOND, None, None)),
    ],
)
def test_the_age_counts_for_the_verdict_in_force(verdict: VerdictName, facts: tuple[Value, Value, Value]) -> None:
    snapshot = replace(SNAPSHOT, verdict=Verdict(verdict, age_ms=65 * SECOND))
    found = facts_of(CheckInput(snapshot, [], verdict, []))
    assert (found["age"], found["stalled_for"], found["waiting_for"]) == facts


@pytest.mark.parametrize(
    "text", ["channel" + "[" * 4_000, "channel[" * 500, "channel[" + "[x" * 2_000 + ".lag > 1m", "x" * 5_000]
)
def test_brackets_do_not_double_the_time(text: str) -> None:
    """With backtracking, 128 of them took 12 s, and each two more twice as long."""
    with pytest.raises(ValueError, match=r"comparison|characters|fact"):
        parse_fail_if(text)


@pytest.mark.parametrize("number", ["nan", "inf", "1e999", "9" * 400, "²", "9" * 400 + "d"])
def test_a_number_that_nothing_is_ever_above_is_refused(number: str) -> None:
    for fact in ("backlog", "late_share", "age", "speed"):
        with pytest.raises(ValueError, match=fact):
            parse_fail_if(f"{fact} > {number}")


def test_under_one_clock_the_watermark_is_never_behind_the_fastest_channel_which_is_no_all_clear() -> None:
    """It follows the fastest one: 0s would be true however far the others are behind."""
    spark = attached.tapped()
    judged = CheckInput(spark, [], "moving", [])
    assert spark.level.behind_fastest_ms == 0
    assert evaluate(parse_fail_if("behind_fastest > 10m"), judged).met is None
    assert "behind the fastest channel" not in reason_of(judged)
