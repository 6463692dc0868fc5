"""Who held the watermark, told from points; times are minutes here."""

from wmtop.engine.snapshot import Cause
from wmtop.engine.verdict.alerts import LateBurst, VerdictChanged
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.tui.words.history import MAX_HOLDS, Hold, HolderChanged, Holders, event_words, shares, totals
from wmtop.tui.words.spans import fitted


def point(
    now: int, holder: str | None, since: int | None = None, cause: Cause | None = None, level: int | None = 0,
    lag: int | None = 5,
) -> HistoryPoint:  # fmt: skip
    return HistoryPoint(now, level, lag, holder, 0, 0, now, held_since_ms=since, cause=cause)


def holds(*points: HistoryPoint) -> list[tuple[str | None, int, int]]:
    holders = Holders()
    for each in points:
        holders.add(each)
    return [(hold.channel, hold.since_ms, hold.until_ms) for hold in holders.until(None)]


def test_a_hold_lasts_while_its_channel_holds() -> None:
    assert holds(point(1, "a"), point(2, "a"), point(5, "a")) == [("a", 1, 5)]


def test_the_next_begins_when_the_engine_says_so_and_that_ends_the_one_before() -> None:
    assert holds(point(1, "a", 0), point(3, "a", 0), point(9, "b", 5), point(10, "b", 5)) == [("a", 0, 5), ("b", 5, 10)]
    assert holds(point(1, "a"), point(9, "b")) == [("a", 1, 9), ("b", 9, 9)]


def test_one_that_came_back_unseen_is_another_hold() -> None:
    assert holds(point(1, "a", 0), point(3, "a", 0), point(9, "a", 7)) == [("a", 0, 3), ("a", 7, 9)]


def test_no_holder_is_a_hold_too() -> None:
    assert holds(point(1, "a", 0), point(3, None), point(9, "a", 7)) == [("a", 0, 3), (None, 3, 7), ("a", 7, 9)]


def test_time_that_goes_back_begins_another_session() -> None:
    assert holds(point(10, "a"), point(20, "b"), point(5, "c")) == [("c", 5, 5)]


def test_it_says_why_how_far_the_level_moved_and_how_far_behind_it_was() -> None:
    holders = Holders()
    for each in (
        point(1, "z", level=10),
        point(2, "a", cause="behind", level=14, lag=3),
        point(3, "a", cause="behind", level=None, lag=None),
        point(4, "a", cause="quiet", level=17, lag=8),
        point(5, "a", cause="quiet", level=17, lag=6),
    ):
        holders.add(each)
    assert holders.until(None)[-1] == Hold("a", 2, 5, 2, ("behind", "quiet"), 14, 17, 8)


def test_the_jump_at_a_takeover_is_the_old_holders() -> None:
    holders = Holders()
    for each in (point(1, "a", level=10), point(2, "a", level=10), point(3, "b", level=90), point(4, "b", level=90)):
        holders.add(each)
    moved = [(hold.channel, (hold.level_to_ms or 0) - (hold.level_from_ms or 0)) for hold in holders.until(None)]
    assert moved == [("a", 80), ("b", 0)]


def test_no_more_than_so_many_are_kept() -> None:
    found = holds(*(point(n, "ab"[n % 2]) for n in range(MAX_HOLDS + 7)))
    assert len(found) == MAX_HOLDS
    assert found[-1][1] == MAX_HOLDS + 6


def test_a_frozen_picture_has_the_holds_up_to_it() -> None:
    holders = Holders()
    for n in range(5):
        holders.add(point(n, "ab"[n % 2]))
    assert [hold.since_ms for hold in holders.until(2)] == [0, 1, 2]
    assert len(holders.until(99)) == 5


def test_totals_are_by_channel_the_longest_first() -> None:
    found = totals([Hold("a", 0, 3, 0), Hold("b", 3, 13, 3), Hold(None, 13, 50, 13), Hold("a", 50, 54, 50)])
    assert [(total.channel, total.held_ms, total.times) for total in found] == [("b", 10, 1), ("a", 7, 2)]


def test_each_cell_says_who_held_which_part_of_it() -> None:
    held = [Hold("a", 0, 5, 0), Hold("b", 5, 10, 5), Hold(None, 10, 15, 10), Hold("a", 15, 20, 15)]
    assert shares(held, 0, 20, 2) == [{"a": 0.5, "b": 0.5}, {"a": 0.5}]
    assert shares(held, 0, 20, 4)[2] == {}
    assert shares([], 0, 10, 3) == [{}, {}, {}]
    assert shares(held, 6, 9, 1) == [{"b": 1.0}]
    assert shares([Hold("a", 7, 7, 7)], 7, 7, 2) == [{"a": 0.001}, {}]


def test_the_narrowest_list_of_events_has_whole_sentences() -> None:
    stall = VerdictChanged(wall_ms=1, verdict="stalled", before="moving", channel="F9", cause="quiet")
    assert fitted(event_words(stall).detail, 29) == "F9 holds back the watermark"
    takeover = HolderChanged(wall_ms=1, channel="F9", before="MQ", cause="quiet", held_ms=9)
    assert fitted(event_words(takeover).detail, 28) == "holds back: no data"
    burst = LateBurst(wall_ms=1, share=0.09, usual=0.005, late=108, records=1_200)
    assert fitted(event_words(burst).detail, 29) == "9.0 % late in the last minute"
