"""Which staves there are, and that they keep their places."""

from collections.abc import Sequence

from wmtop.engine.snapshot import ChannelState, Snapshot
from wmtop.engine.verdict.blame import holding_channel
from wmtop.tui.words.barrel import Axis, Stave, columns, common, far_below
from wmtop.tui.words.channels import PATIENCE_S, ChannelRow, Order, by_name, ordered, staves

from ..canned import CARRIERS, HOUR, MINUTE, channel, flights, instances, live, stalled


def rows(*found: tuple[str, int | None, ChannelState]) -> list[ChannelRow]:
    """Channels, the most behind first."""
    views = [channel(name, ms, state=state) for name, ms, state in found]
    return ordered([ChannelRow(view, view.state, view.watermark_ms) for view in views], "behind")


def at(**watermarks: int | None) -> list[ChannelRow]:
    views = [channel(key, ms) for key, ms in watermarks.items()]
    return ordered([ChannelRow(view, view.state, view.watermark_ms) for view in views], "behind")


def names(found: Sequence[ChannelRow]) -> str:
    return "".join(row.view.channel for row in found)


def drawn(snapshot: Snapshot, inside: int | None = None) -> list[Stave]:
    return staves(snapshot, inside, ordered(by_name(snapshot, inside), "behind"))


def test_the_most_behind_comes_first_and_who_is_left_out_comes_last() -> None:
    found = rows(
        ("i", 1, "idle"), ("a", 5, "active"), ("c", 0, "catching_up"), ("b", 3, "active"), ("n", None, "never_seen")
    )
    assert names(Order().arrange(found, 0.0)) == "bacni"


def test_another_sort_order_holds_at_once() -> None:
    order = Order()
    assert names(order.arrange(at(a=1, b=2, c=3), 0.0, "behind")) == "abc"
    assert names(order.arrange(at(a=1, b=2, c=3)[::-1], 0.1, "reverse")) == "cba"


def test_a_stave_stays_until_its_rank_has_differed_for_a_while() -> None:
    order = Order()
    assert names(order.arrange(at(a=1, b=2, c=3), 0.0)) == "abc"
    assert names(order.arrange(at(a=9, b=2, c=3), 1.0)) == "abc"
    assert names(order.arrange(at(a=9, b=2, c=3), PATIENCE_S)) == "abc"
    assert names(order.arrange(at(a=9, b=2, c=3), PATIENCE_S + 1.0)) == "bca"


def test_a_channel_far_from_its_place_moves_at_once() -> None:
    order = Order()
    assert names(order.arrange(at(a=1, b=2, c=3, d=4), 0.0)) == "abcd"
    assert names(order.arrange(at(a=9, b=2, c=3, d=4), 1.0)) == "bcda"


def test_staves_that_overtake_each_other_again_and_again_stay() -> None:
    order = Order()
    for second in range(60):
        there = at(a=1, b=2) if second % 4 < 2 else at(a=2, b=1)
        assert names(order.arrange(there, float(second))) == "ab"


def test_a_new_stave_is_at_its_rank_at_once_and_a_gone_one_leaves_no_gap() -> None:
    order = Order()
    order.arrange(at(a=1, c=3), 0.0)
    assert names(order.arrange(at(a=1, c=3, b=2), 1.0)) == "abc"
    assert names(order.arrange(at(b=2, c=3), 2.0)) == "bc"


def test_instances_replace_their_channels_until_one_is_opened() -> None:
    snapshot = instances()
    assert [stave.key for stave in drawn(snapshot)] == ["#2", "#3", "#0", "#1"]  # as their first channels
    assert [stave.kind for stave in drawn(snapshot)] == ["holder", "active", "active", "active"]
    inside = drawn(snapshot, 2)
    assert {stave.key for stave in inside} == set(CARRIERS[2::4])
    assert holding_channel(snapshot) == "F9"
    assert inside[0] == next(stave for stave in inside if stave.kind == "holder")


def test_the_first_are_always_those_most_behind_in_a_stable_order() -> None:
    order = Order(patience_s=8.0, kept=3)

    def keys(now_s: float, **ahead: int) -> str:
        views = [channel(key, ms, state="idle" if key == "z" else "active") for key, ms in ahead.items()]
        found = ordered([ChannelRow(view, view.state, view.watermark_ms) for view in views], "behind")
        return names(order.arrange(found, now_s))

    assert keys(0, a=1, b=2, c=3, d=4, e=5, z=0) == "abcdez"
    assert keys(1, a=2, b=1, c=3, d=4, e=5, z=0)[:3] == "abc"  # the eye can follow it
    assert set(keys(2, a=2, b=1, c=9, d=4, e=0, z=0)[:3]) == {"a", "b", "e"}
    assert keys(2, a=2, b=1, c=9, d=4, e=0, z=0)[3:] == "dcz"


def test_no_channel_holds_when_all_are_idle() -> None:
    assert holding_channel(stalled()) is None
    assert {stave.kind for stave in drawn(stalled())} == {"idle"}
    assert len(drawn(live(flights()))) == 16


def test_idle_channels_far_below_are_a_group_from_three_on() -> None:
    axis = Axis(low_ms=0, row_ms=MINUTE, per_tick=2, rows=20)
    near = [Stave(f"a{place}", 9 * MINUTE, "active") for place in range(9)]
    far = [Stave(f"i{place}", MINUTE * 10 - place * HOUR, "idle") for place in range(9, 16)]
    group = far_below([*near, *far], axis, MINUTE * 10, 110)
    assert list(group.staves) == far
    assert group.text == "7 idle, 9h to 15h behind"
    assert group.left + group.cells == 110
    assert group.at(group.left) == far[0]
    assert group.at(group.left - 1) is None
    assert group.at(109) == far[-1]
    narrow = far_below([*near, *far], axis, MINUTE * 10, 50)
    assert narrow.text.startswith("7 idle")
    assert narrow.cells <= 50 // 4
    assert not far_below([*near, *far[:2]], axis, MINUTE * 10, 110).staves
    assert not far_below([*near, Stave("n", None, "never_seen"), *far[:2]], axis, None, 110).staves


def test_staves_are_as_wide_as_there_is_room() -> None:
    for count in range(1, 120):
        for width in (20, 64, 110, 190):
            cols = columns(count, width)
            assert cols.shown >= 1
            end = cols.left + (cols.shown - 1) * cols.pitch + cols.stave
            assert cols.left >= 0
            assert end <= width
            if cols.fold_cells:
                assert end < cols.fold_left
                assert cols.fold_left + cols.fold_cells <= width
                assert cols.fold_cells * cols.per_cell >= count - cols.shown
            else:
                assert cols.shown == count
    assert columns(10_000, 110).stave == 2
    assert columns(1, 110).stave > columns(16, 110).stave > columns(36, 110).stave


def test_without_room_one_stave_is_drawn() -> None:
    for count in (1, 2, 9):
        for width in (-3, 0, 1, 2, 5):
            assert columns(count, width).shown >= 1


def test_a_click_finds_its_stave() -> None:
    cols = columns(1_000, 110)
    hits = [cols.at(x) for x in range(110)]
    assert hits[0] == 0
    assert hits[cols.pitch] == 1
    assert hits[cols.fold_left] == -1
    assert hits[cols.fold_left + cols.fold_cells - 1] == -cols.fold_cells
    assert {hit for hit in hits if hit is not None and hit >= 0} == set(range(cols.shown))


def test_what_names_have_in_common_ends_at_a_sign() -> None:
    assert common(["events-1", "events-10", "events-11"]) == "events-"
    assert common(["events-1"]) == ""
    assert common(["part1", "part12"]) == ""
    assert common(["a.b.c", "a.b.c"]) == "a.b."
