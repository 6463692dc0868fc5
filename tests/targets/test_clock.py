"""How far a target's clock is ahead of ours, by what appears."""

import pytest
from wmtop.engine.targets.clock import Offset, TargetClock, offset_by_files, offset_note, set_note
from wmtop.tui.words.notes import note_text

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000
NOW = 1_700_000_000_000
OFFSETS = [-HOUR, -40 * SECOND, 40 * SECOND, HOUR]


def looked(clock: TargetClock, stamps: list[int], *, every_ms: int = 5 * SECOND, delay_ms: int = 300) -> None:
    """A look a second; each stamp (ms after `NOW`, target's clock) is seen `delay_ms` after its moment."""
    for number, stamp in enumerate(stamps):
        for second in range(0, every_ms, SECOND):
            now = NOW + number * every_ms + second
            clock.see(NOW + stamp if second >= delay_ms else NOW + (stamps[number - 1] if number else stamp), now)


@pytest.mark.parametrize("offset_ms", OFFSETS)
def test_two_stamps_that_appear_measure_it(offset_ms: int) -> None:
    clock = TargetClock()
    looked(clock, [offset_ms + number * 5 * SECOND for number in range(3)])
    assert clock.offset.is_measured
    assert offset_ms - 2 * SECOND <= clock.offset.ms <= offset_ms


def test_clocks_that_differ_by_little_are_one() -> None:
    for offset_ms in (-9 * SECOND, -SECOND, 0, SECOND, 9 * SECOND):
        clock = TargetClock()
        looked(clock, [offset_ms + number * 5 * SECOND for number in range(5)])
        assert clock.offset == Offset()


def test_a_stamp_in_our_future_shows_the_least_and_is_no_measure() -> None:
    clock = TargetClock()
    for second in range(60):
        clock.see(NOW + HOUR, NOW + second * SECOND)
        assert clock.offset == Offset(HOUR, is_measured=False)


def test_a_single_old_stamp_that_appears_is_no_clock_behind() -> None:
    """It may have been on its way; a second one that is as old shows the clock."""
    clock = TargetClock()
    clock.see(NOW - HOUR, NOW)
    clock.see(NOW - 30 * MINUTE, NOW + SECOND)
    assert clock.offset == Offset()
    clock.see(NOW - 30 * MINUTE + 5 * SECOND, NOW + 6 * SECOND)
    assert clock.offset.ms == pytest.approx(-30 * MINUTE, abs=2 * SECOND)


def test_what_appears_after_a_gap_shows_no_clock() -> None:
    clock = TargetClock()
    clock.see(NOW, NOW)
    clock.see(NOW + 200 * SECOND, NOW + 600 * SECOND)
    assert clock.offset == Offset()


def test_a_clock_that_is_set_is_measured_again() -> None:
    clock = TargetClock()
    looked(clock, [number * 5 * SECOND for number in range(4)])
    assert clock.offset == Offset()
    for step in range(4):
        clock.see(NOW + HOUR + (20 + 5 * step) * SECOND, NOW + (20 + 5 * step) * SECOND)
    assert clock.offset.ms == pytest.approx(HOUR, abs=2 * SECOND)
    for step in range(3):
        clock.see(NOW + (40 + 5 * step) * SECOND, NOW + (40 + 5 * step) * SECOND)
    assert clock.offset == Offset()


@pytest.mark.parametrize("offset_ms", OFFSETS)
def test_the_times_of_files_show_it_at_the_first_look(offset_ms: int) -> None:
    written = [(NOW + offset_ms + step * 5 * SECOND, NOW + step * 5 * SECOND + 200) for step in range(4)]
    assert offset_by_files(written, NOW + MINUTE) == offset_ms - 200
    clock = TargetClock()
    clock.see(written[-1][0], NOW + MINUTE, offset_by_files(written, NOW + MINUTE))
    assert clock.offset == Offset(offset_ms - 200)


def test_the_times_of_a_copy_show_nothing() -> None:
    copied = [(NOW - HOUR + step * 5 * SECOND, NOW) for step in range(4)]
    assert offset_by_files(copied, NOW + SECOND) is None
    assert offset_by_files(copied[:1], NOW + SECOND) is None
    assert (
        offset_by_files([(NOW + 5 * step * SECOND, NOW + HOUR + 5 * step * SECOND) for step in range(4)], NOW) is None
    )


def test_a_note_names_both_clocks() -> None:
    assert offset_note(Offset(9 * SECOND), NOW, "driver") == []
    [note] = offset_note(Offset(-HOUR), NOW, "driver")
    assert note_text(note) == (
        "The driver's clock is 1h behind this machine's (2023-11-14 21:13:20 UTC there, 2023-11-14 22:13:20 UTC here); "
        "ages are corrected by that"
    )
    [note] = offset_note(Offset(40 * SECOND, is_measured=False), NOW, "driver")
    assert "at least 40s ahead" in note_text(note)
    assert set_note(5 * SECOND, NOW) == []
    [note] = set_note(-270 * SECOND, NOW)
    assert note_text(note) == (
        "This machine's clock was set back by 4m30s: it shows 2023-11-14 22:08:50 UTC, wmtop counts on at "
        "2023-11-14 22:13:20 UTC, so that ages stay right"
    )
