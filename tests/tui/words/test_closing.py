"""When a window closes, and why not yet: each case has its own words, and only its own."""

from datetime import UTC
from typing import Any

import pytest
from wmtop.engine.snapshot import (
    Cause,
    FiredWindow,
    Holder,
    Level,
    OpenWindow,
    OutputMode,
    Snapshot,
    SparkProgress,
    SparkQuery,
    StatefulOperator,
)
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.engine.watermarks.settings import Settings
from wmtop.tui.words.closing import Closing, blockers, closing, fired_words, kept_until_ms, needs_ms, pace

from tests.snapshots import replace

from ..canned import HOUR, LEVEL, MINUTE, NOON, NOW, SETTINGS, WALL, attached, empty, ended, live, never_seen, stalled

END = NOON + 2 * HOUR


def first(snapshot: Snapshot, speed: float | None = None) -> Closing:
    return closing(snapshot, live().windows.open[0], speed, UTC)


def said(closes: Closing) -> str:
    return "".join(text for text, _ in closes.why)


def held(why: Cause, **more: Any) -> Snapshot:
    """F9 holds for that reason; `more` is said of it."""
    snapshot = live()
    views = [replace(view, **more) if view.channel == "F9" else view for view in snapshot.channels]
    return replace(snapshot, channels=views, level=replace(snapshot.level, holder=Holder("F9", NOW, why)))


def points(*level_min: int, holder: str = "F9", every_s: int = 60) -> list[HistoryPoint]:
    """The watermark in minutes, every so many seconds of processing time and of wall clock."""
    return [
        HistoryPoint(NOW + 1_000 * every_s * n, LEVEL + m * MINUTE, 0, holder, 0, 0, WALL + 1_000 * every_s * n)
        for n, m in enumerate(level_min)
    ]


def test_a_quiet_holder_without_an_idle_timeout_never_lets_it_close() -> None:
    closes = first(replace(held("quiet"), settings=replace(SETTINGS, idle_after_ms=None)), speed=2.0)
    assert (closes.kind, closes.brief, closes.in_ms) == ("never", "never: needs data or an idle timeout", None)
    assert "never fires without a record from 14:30:00 or an idle timeout" in said(closes)


def test_with_an_idle_timeout_it_says_when_the_holder_is_left_out_and_who_is_next() -> None:
    closes = first(held("quiet"))
    assert (closes.kind, closes.brief, closes.in_ms) == ("idle", "idle in 1h34m, then YV", None)
    assert "F9, 12m of event time short: no data for 26m" in said(closes)
    assert "it becomes idle in 1h34m (idle timeout 2h), and then the window waits for YV, 3m short." in said(closes)


def test_with_no_other_channel_short_of_the_end_the_idle_timeout_closes_it() -> None:
    snapshot = held("quiet")
    views = [view for view in snapshot.channels if view.channel != "YV"]
    closes = first(replace(snapshot, channels=views))
    assert (closes.kind, closes.brief, closes.in_ms) == ("idle", "idle in 1h34m", 94 * MINUTE)
    assert said(closes).endswith("and then the window fires.")


def test_a_timeout_that_is_over_already_waits_for_the_ticks() -> None:
    assert first(held("quiet", timer_ms=3 * HOUR)).brief == "idle at one of the next ticks, then YV"


def test_an_idle_timer_that_does_not_run_lets_no_window_fire() -> None:
    """As the blockers say it; a recording from before timers were kept counts from the last record."""
    stopped = held("quiet", timer_ms=None)
    assert (first(stopped).kind, first(stopped).brief) == ("never", "never: needs data")
    assert "idle timer (2h) does not run" in said(first(stopped))
    assert first(replace(stopped, blockers=None)).brief == "idle in 1h34m, then YV"


def test_a_holder_that_was_never_seen_is_waited_for_too() -> None:
    snapshot = replace(never_seen(), settings=replace(SETTINGS, idle_after_ms=None))
    closes = closing(snapshot, OpenWindow(NOON, END, 7, "1", None), 1.0, UTC)
    assert closes.brief == "never: needs data or an idle timeout"
    assert "1: no record since the start" in said(closes)


def test_a_holder_that_is_read_closes_it_at_its_pace() -> None:
    for why in ("behind", "slow_clock", "future_elsewhere", "backlog", "held_back"):
        closes = first(held(why), speed=1.5)  # type: ignore[arg-type]
        assert (closes.kind, closes.brief, closes.in_ms) == ("pace", "≈ in 8m", 8 * MINUTE), why
    assert "at its pace in about 8m" in said(closes)
    assert "it needs a record from 14:30:00 or later, its newest is from 14:18:00" in said(closes)


def test_a_pace_that_is_not_known_or_leads_nowhere_promises_nothing() -> None:
    assert first(held("behind"), None).brief == "pace not known yet"
    assert first(held("behind"), 0.0).brief == "not at this pace"
    assert "more than 30 days away" in said(first(held("behind"), 0.0))
    assert "more than 30 days away" in said(first(held("behind"), 1e-9))


def test_while_the_source_is_paused_nothing_is_promised() -> None:
    closes = first(held("paused"), speed=1.0)
    assert (closes.kind, closes.brief, closes.in_ms) == ("unknown", "not while paused", None)


def test_when_all_are_idle_only_data_helps() -> None:
    closes = first(stalled(), speed=1.0)
    assert (closes.kind, closes.brief) == ("never", "never: needs data")


def test_without_watermarks_it_closes_at_the_end() -> None:
    settings = Settings(strategy="none", lateness_ms=None)
    assert first(replace(live(), settings=settings), 1.0).brief == "at the end of the stream"
    assert first(ended()).kind == "now"


def test_a_level_past_the_end_fires_at_the_next_emit() -> None:
    assert closing(live(), OpenWindow(NOON, NOON + HOUR, 7, "F9", -1), 1.0, UTC).brief == "at the next emit"


def test_a_query_of_others_says_what_is_known_and_what_is_not() -> None:
    closes = first(attached(), 2.0)
    assert (closes.kind, closes.brief) == ("pace", "≈ in 6m")
    assert "what holds it back is not known from here; at the watermark's pace in about 6m" in said(closes)
    nothing = closing(attached(), OpenWindow(NOON, END, None, None, None), None, UTC)
    assert (nothing.kind, nothing.brief) == ("unknown", "not known from here")


def test_a_window_that_the_watermark_of_the_query_does_not_close_says_so() -> None:
    unknown = OpenWindow(NOON, END, 3, None, None, operator=0)
    shown = attached()
    assert shown.level.watermark_ms is not None
    behind = closing(shown, unknown, 2.0, UTC)
    assert behind.kind == "unknown"
    complete = replace(shown, spark=replace(shown.spark, output_mode="complete"))
    kept = [StatefulOperator(operator=0, kind="aggregation", evicts=False), StatefulOperator(operator=1, kind="join")]
    forever = replace(shown, spark=replace(shown.spark, operators=kept))
    words = {closing(one, unknown, 2.0, UTC).brief for one in (shown, complete, forever)}
    assert len(words) == 3
    assert {closing(one, unknown, 2.0, UTC).kind for one in (complete, forever)} == {"never"}


def test_without_a_record_it_needs_data() -> None:
    assert first(empty()).brief == "never: needs data"


def test_blockers_take_part_and_are_short_of_the_end_the_most_behind_first() -> None:
    assert [view.channel for view in blockers(live(), END)] == ["F9", "YV"]
    assert [view.channel for view in blockers(never_seen(), END)][:1] == ["1"]
    assert blockers(stalled(), END) == []


def test_the_record_that_closes_a_window_depends_on_the_strategy() -> None:
    def needs(strategy: str) -> int | None:
        return needs_ms(replace(live(), settings=replace(SETTINGS, strategy=strategy)), END)

    assert needs("bounded") == needs("spark") == END + 30 * MINUTE
    assert needs("bounded-legacy") == END + 30 * MINUTE - 1
    assert needs("monotonous") == END
    assert needs("source") is needs("custom") is needs("punctuated") is needs("smoothed") is None
    closes = first(replace(held("behind"), settings=replace(SETTINGS, strategy="source", lateness_ms=None)), 1.0)
    assert "it needs its watermark at 13:59:59" in said(closes)


def test_the_pace_is_the_holders_own_where_it_has_held_for_long_enough() -> None:
    assert pace(points(0, 1, 2, 3), live()) == 1.0
    before, own = points(0, 50, 100, 150, holder="MQ"), points(0, 0, 0, 0, 1, 2, 3, every_s=1)
    assert pace([*before, *(replace(p, wall_ms=p.wall_ms + 4 * MINUTE, now_ms=p.now_ms + HOUR) for p in own[3:])],
                live()) == 60.0  # fmt: skip


def test_the_pace_is_the_levels_where_the_holder_is_new() -> None:
    new = replace(points(8)[0], now_ms=NOW + 4 * MINUTE, wall_ms=WALL + 4 * MINUTE)
    assert pace([*points(0, 2, 4, 6, holder="MQ"), new], live()) == 2.0


def test_the_pace_is_not_known_from_too_little() -> None:
    assert pace([], live()) is None
    assert pace(points(0, 1), live()) is None
    assert pace([replace(p, watermark_ms=None) for p in points(0, 1, 2, 3, 4)], live()) is None
    assert pace([replace(p, wall_ms=WALL) for p in points(0, 1, 2, 3, 4)], live()) is None


def test_what_is_long_ago_does_not_count_for_the_pace() -> None:
    old = replace(points(-600)[0], now_ms=NOW - HOUR, wall_ms=WALL - HOUR)
    assert pace([old, *points(0, 1, 2, 3)], live()) == 1.0


FIRED = FiredWindow(NOON, NOON + HOUR, 2_310, NOON + HOUR + 37 * MINUTE)


def fired(window: FiredWindow, snapshot: Snapshot | None = None) -> str:
    return "".join(text for text, _ in fired_words(window, snapshot or live(), UTC))


def test_a_fired_window_says_when_it_fired_and_what_came_late() -> None:
    assert fired(FIRED) == ("It fired 13:37:00, 37m after its end, with 2,310 records. No record came after it fired.")
    late = fired(replace(FIRED, late_firings=3, late_drops=1))
    assert "Late records made it fire 3 more times. 1 record dropped: the window was closed." in late
    assert fired(replace(FIRED, ended=True)).startswith("It fired when the stream ended, with")


def test_a_window_within_its_allowed_lateness_still_takes_records() -> None:
    snapshot = replace(live(), settings=replace(SETTINGS, allowed_lateness_ms=HOUR))
    assert kept_until_ms(FIRED, snapshot) == NOON + 2 * HOUR - 1
    assert "It still accepts late records, until the watermark reaches 13:59:59." in fired(FIRED, snapshot)
    assert kept_until_ms(FIRED, live()) is None
    assert kept_until_ms(FIRED, replace(snapshot, level=Level())) == NOON + 2 * HOUR - 1
    assert kept_until_ms(FIRED, replace(snapshot, ended=True)) is None


@pytest.mark.parametrize(
    ("mode", "in_flight", "words"),
    [
        ("append", False, "closed by batch 17, emitted by batch 18"),
        ("append", True, "closed by batch 16, emitted by batch 17"),
        ("update", False, "closed by batch 17, removed by batch 18"),
        (None, False, "closed by batch 17, removed by batch 18"),
    ],
)
def test_a_window_that_a_batch_of_spark_has_closed(mode: OutputMode | None, in_flight: bool, words: str) -> None:
    """The next batch emits the window; in update mode, or if the mode is not known, it removes it from the state."""
    spark = SparkProgress(output_mode=mode, in_flight=in_flight)
    shown = Snapshot(
        name="q", state="live", wall_ms=0, batch=17, settings=Settings(strategy="spark"), target=SparkQuery(spark)
    )
    window = OpenWindow(start_ms=0, end_ms=10_000, records=3, waits_for=None, short_ms=0)
    closes = closing(shown, window, None, None)
    assert (closes.kind, closes.brief) == ("now", words)
    assert "still accepts its records" in "".join(text for text, _ in closes.why)
