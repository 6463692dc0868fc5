"""Which staves there are, and that they keep their places."""

from wmtop.tui.words.barrel import PATIENCE_S, Order, Stave, columns, common, holding, staves

from ..canned import CARRIERS, flights, instances, live, stalled


def at(**watermarks: int | None) -> list[Stave]:
    return [Stave(key, watermark, "active") for key, watermark in watermarks.items()]


def names(found: list[Stave]) -> str:
    return "".join(stave.key for stave in found)


def test_the_most_behind_comes_first_and_who_is_left_out_comes_last() -> None:
    found = [
        Stave("i", 1, "idle"), Stave("a", 5, "active"), Stave("c", 0, "catching_up"), Stave("h", 4, "holder"),
        Stave("b", 3, "active"), Stave("n", None, "never_seen"),
    ]  # fmt: skip
    assert names(Order().arrange(found, 0.0)) == "hbacni"


def test_a_stave_stays_until_its_rank_has_differed_for_a_while() -> None:
    order = Order()
    assert names(order.arrange(at(a=1, b=2, c=3), 0.0)) == "abc"
    assert names(order.arrange(at(a=9, b=2, c=3), 1.0)) == "abc"
    assert names(order.arrange(at(a=9, b=2, c=3), PATIENCE_S)) == "abc"
    assert names(order.arrange(at(a=9, b=2, c=3), PATIENCE_S + 1.0)) == "bca"


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
    assert [stave.key for stave in staves(snapshot, None)] == ["#0", "#1", "#2", "#3"]
    assert [stave.kind for stave in staves(snapshot, None)] == ["active", "active", "holder", "active"]
    inside = staves(snapshot, 2)
    assert [stave.key for stave in inside] == CARRIERS[2::4]
    assert holding(snapshot) == "F9"
    assert next(stave for stave in inside if stave.key == "F9").kind == "holder"


def test_beyond_the_width_the_first_are_always_those_most_behind_in_a_stable_order() -> None:
    order = Order(patience_s=8.0)

    def found(**ahead: int) -> list[Stave]:
        return [Stave(key, ms, "idle" if key == "z" else "active") for key, ms in ahead.items()]

    def keys(now_s: float, **ahead: int) -> list[str]:
        return [stave.key for stave in order.arrange(found(**ahead), now_s, 3)]

    assert keys(0, a=1, b=2, c=3, d=4, e=5, z=0) == ["a", "b", "c", "d", "e", "z"]
    assert keys(1, a=2, b=1, c=3, d=4, e=5, z=0)[:3] == ["a", "b", "c"]  # the eye can follow it
    assert set(keys(2, a=2, b=1, c=9, d=4, e=0, z=0)[:3]) == {"a", "b", "e"}
    assert keys(2, a=2, b=1, c=9, d=4, e=0, z=0)[3:] == ["d", "c", "z"]


def test_no_channel_holds_when_all_are_idle() -> None:
    assert holding(stalled()) is None
    assert {stave.kind for stave in staves(stalled(), None)} == {"idle"}
    assert len(staves(live(flights()), None)) == 16


def test_staves_are_as_wide_as_there_is_room() -> None:
    for count in range(1, 120):
        for width in (20, 64, 110, 190):
            cols = columns(count, width, label=4)
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
    assert columns(1, 110, label=3).stave > columns(16, 110, label=3).stave > columns(36, 110, label=3).stave


def test_without_room_one_stave_is_drawn() -> None:
    for count in (1, 2, 9):
        for width in (-3, 0, 1, 2, 5):
            assert columns(count, width, label=4).shown >= 1


def test_a_click_finds_its_stave() -> None:
    cols = columns(1_000, 110, label=3)
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
