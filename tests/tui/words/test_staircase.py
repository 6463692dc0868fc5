"""The staircase in words, and windows that wait for the same channels."""

from msgspec.structs import replace
from wmtop.engine.snapshot import Blocker, OpenWindow
from wmtop.tui.screens.windows import group_line
from wmtop.tui.widgets.rows import paragraph
from wmtop.tui.words.holder import short_staircase
from wmtop.tui.words.staircase import further_steps, steps
from wmtop.tui.words.windows import waits_for, waits_within, window_groups

from .. import canned
from ..canned import HOUR, LEVEL, MINUTE


def window(place: int, blockers: list[str] | None, records: int | None = 10) -> OpenWindow:
    count = None if blockers is None else len(blockers)
    return OpenWindow(
        LEVEL + place * HOUR, LEVEL + (place + 1) * HOUR, records, "F9", HOUR, blockers=blockers, blocker_count=count
    )


def test_windows_with_the_same_blockers_are_one_group() -> None:
    opened = [window(0, ["F9"]), window(1, ["F9"]), window(2, ["F9", "YV"]), window(3, [])]
    groups = window_groups(opened)
    assert [list(group.windows) for group in groups] == [opened[:2], opened[2:3], opened[3:]]
    assert groups[0].records == 20
    assert groups[0].end_ms == opened[1].end_ms


def test_windows_whose_blockers_are_not_known_are_alone() -> None:
    assert len(window_groups([window(0, None), window(1, None)])) == 2
    assert window_groups([window(0, ["F9"], None)])[0].records is None


def test_the_same_channels_of_which_more_are_not_named_are_not_the_same() -> None:
    many = [replace(window(0, ["a"]), blocker_count=40), replace(window(1, ["a"]), blocker_count=41)]
    assert len(window_groups(many)) == 2


def test_a_window_names_its_blockers_and_counts_the_rest() -> None:
    assert waits_for(window(0, None)) == "F9"
    assert waits_for(window(0, [])) is None
    said = waits_for(replace(window(0, ["a", "b", "c", "d"]), blocker_count=90)) or ""
    assert "a, b, c" in said
    assert "87" in said


def test_a_window_that_waits_for_all_that_take_part_names_none() -> None:
    named = [f"p{number}" for number in range(6)]
    assert waits_for(window(0, named), 3, of=6) == "all 6"
    assert waits_for(window(0, named[:5]), 3, of=6) == "p0, p1, p2 and 2 more"
    assert waits_for(window(0, named[:2]), 3, of=2) == "p0, p1", "as short as their number"


def test_each_step_has_its_gain_and_its_way_out() -> None:
    found = [Blocker(["F9"], 5 * MINUTE, LEVEL, "quiet", 1), Blocker(["YV"], None, None, "never_seen", 1)]
    off = canned.live(blockers=found, settings=replace(canned.SETTINGS, idle_after_ms=None))
    on = canned.live(blockers=found)
    assert [facts.step for facts in steps(off)] == found
    assert steps(off)[0].frees != steps(on)[0].frees
    timed = [replace(view, timer_ms=90 * MINUTE) if view.channel == "F9" else view for view in on.channels]
    assert "30m" in steps(replace(on, channels=timed))[0].frees
    assert steps(replace(on, blockers=None)) == []


def test_the_short_form_leaves_out_what_gains_nothing() -> None:
    found = [Blocker([name], gain, LEVEL, "quiet", 1) for name, gain in (("a", None), ("b", 0), ("c", HOUR))]
    assert short_staircase(canned.live(blockers=found[:2])) == []
    text = "".join(run for item in short_staircase(canned.live(blockers=found)) for run, _ in item.spans)
    assert "c +1h" in text
    assert "a " not in text.replace("if freed: ", "")


def test_sessions_with_equal_times_do_not_fire_at_once() -> None:
    """Sessions of several keys in an attached query: what they wait for is not known."""
    opened = [replace(window(0, None), waits_for=None)] * 8
    [group] = window_groups(opened)
    said = "".join(text for text, _ in group_line(group, 80))
    assert "8 windows" in said
    assert "fire" not in said
    [now] = window_groups([window(0, []), window(1, [])])
    assert "fire" in "".join(text for text, _ in group_line(now, 80))


def test_a_paragraph_is_wrapped_and_not_cut() -> None:
    words = "no channel holds back the watermark: Spark's one clock follows the fastest channel"
    drawn = [line(40) for line in paragraph(words).lines]
    assert " ".join(text.strip() for runs in drawn for text, _ in runs) == words


def test_the_gains_of_the_staircase_say_that_they_include_those_before() -> None:
    text = "".join(text for part in short_staircase(canned.live()) for text, _ in part.spans)
    assert text.startswith("if freed: F9 +9m, with YV too +12m, with MQ too +18m")


def test_further_steps_are_the_watermarks_between_the_last_listed_step_and_the_fastest() -> None:
    snapshot = canned.many(200)
    times = {view.watermark_ms or 0 for view in snapshot.channels if view.state == "active"}
    last = max(step.watermark_ms or 0 for step in snapshot.blockers or ())
    assert further_steps(snapshot) == sum(last < time < max(times) for time in times) > 100
    few = canned.live()
    assert further_steps(few) == 13 - 1 - len(few.blockers or ())
    assert further_steps(canned.attached()) == 0


def test_a_window_names_as_many_blockers_as_fit_whole() -> None:
    waiting = window(0, ["orders-1", "orders-2", "orders-3", "orders-4"])
    assert waits_within(waiting, 60) == "orders-1, orders-2, orders-3 and 1 more"
    assert waits_within(waiting, 38) == "orders-1, orders-2 and 2 more"
    assert waits_within(waiting, 20) == "orders-1 and 3 more"
    assert waits_within(waiting, 12) == "4 channels"
    assert waits_within(window(0, []), 60) is None
