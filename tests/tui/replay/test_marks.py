"""What is marked in a recording: new holders, stalls, bursts of late records; drawn as a line a character a second."""

import re
from collections.abc import Sequence

import pytest
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.tui.replay.player import play_times
from wmtop.tui.replay.timeline import bursts, holders, marks_of, stalls

SECOND = 1_000


def reported(
    line: str,
    *,
    level: Sequence[int] | None = None,
    late: Sequence[int] | None = None,
    came: int = 100,
    step_s: int = 1,
) -> list[HistoryPoint | None]:
    """A point a character, `step_s` apart: the letter holds, `.` is nobody, a blank is a snapshot without clocks."""
    out: list[HistoryPoint | None] = []
    for n, holder in enumerate(line):
        now = n * step_s * SECOND
        watermark = now if level is None else level[n]
        lates = sum(late[: n + 1]) if late else 0
        point = HistoryPoint(now, watermark, 0, None if holder == "." else holder, came * (n + 1), lates, now)
        out.append(None if holder == " " else point)
    return out


@pytest.mark.parametrize(
    ("line", "marks"),
    [
        ("AAAAABBBBBAAAAA", [(5, "B"), (10, "A")]),
        ("AAAAABAAAAAAAAA", []),  # a moment
        ("AAAAABBAAAAABBB", [(12, "B")]),
        ("ABABABABABABABA", []),
        (".....AAAAAA....AAAA", []),  # the first is no change, and the same again is none
        ("AAAAA.....BBBBB", [(10, "B")]),
        ("AAAAA     BBBBB", [(10, "B")]),
        ("A", []),
        ("", []),
    ],
)
def test_holders_that_held_for_a_while(line: str, marks: list[tuple[int, str]]) -> None:
    points = reported(line)
    found = [(mark.start, mark.words[0]) for mark in holders(points, play_times(points))]
    assert found == marks


def test_a_holder_must_hold_for_a_hundredth_of_the_recording() -> None:
    points = reported("A" * 500 + "B" * 4 + "A" * 500 + "C" * 20)
    assert [mark.start for mark in holders(points, play_times(points))] == [1004]


def test_a_frozen_watermark_while_records_come_is_a_stall() -> None:
    level = [*range(50), *([50] * 70), *range(51, 101)]
    points = reported("A" * len(level), level=level)
    (mark,) = stalls(points)
    assert (mark.kind, mark.start, mark.end) == ("stall", 50, 119)
    assert mark.words.endswith(" 1m10s")
    assert list(stalls(reported("A" * len(level), level=level, came=0))) == []  # nothing came: nothing to wait for
    assert list(stalls(reported("A" * 59, level=[7] * 59))) == []
    assert len(list(stalls(reported("A" * 70, level=[7] * 70)))) == 1


def test_a_level_that_always_moves_seldom_does_not_stall_each_time() -> None:
    level = [n // 10 * 10 for n in range(200)]
    level[100:130] = [100] * 30
    points = reported("A" * len(level), level=level, step_s=60)
    assert [(mark.start, mark.end) for mark in stalls(points)] == [(100, 129)]


def test_another_run_is_no_stall_and_no_burst() -> None:
    """The second engine starts with the same watermark, its counts at nothing."""
    first = reported("A" * 40, level=[5] * 40, late=[1] * 40)
    second = reported("A" * 40, level=[5] * 40, late=[1] * 40)
    points = [*first, *second]
    assert marks_of(points, play_times(points)) == []


def test_bursts_are_far_above_the_usual_share_and_joined() -> None:
    late = [1] * 300
    late[100:107] = [40] * 7
    points = reported("A" * 300, late=late)
    (mark,) = bursts(points, play_times(points))
    assert mark.kind == "late"
    assert 97 <= mark.start <= 100
    assert 106 <= mark.end <= 109
    assert re.search(r"\d ?%", mark.words)
    assert list(bursts(reported("A" * 300, late=[30] * 300), play_times(points))) == []  # it is always so
    assert (
        list(bursts(reported("A" * 300, late=late, came=1_000_000), play_times(points))) == []
    )  # not one in a hundred


def test_marks_come_in_order() -> None:
    level = [*range(50), *([50] * 100), *range(51, 101)]
    late = [0] * 20 + [50] * 5 + [0] * 175
    points = reported("A" * 70 + "B" * 130, level=level, late=late)
    assert [mark.kind for mark in marks_of(points, play_times(points))] == ["late", "stall", "holder"]
