"""What is marked in a recording: new holders, stalls, bursts of late records; drawn as a line a character a second."""

import re
from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.tui.replay.app import play_times
from wmtop.tui.replay.timeline import Timeline, bursts, holders, marks_of, stalls

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


def test_a_stall_is_marked_where_the_verdict_says_so() -> None:
    points = with_verdicts(reported("A" * 120), 50, 119)
    (mark,) = stalls(points)
    assert (mark.kind, mark.start, mark.end) == ("stall", 50, 119)
    assert mark.words == "stalled for 2h"
    assert list(stalls(reported("A" * 120, level=[7] * 120))) == [], "a watermark that is frozen is no stall by itself"


def with_verdicts(points: list[HistoryPoint | None], start: int, end: int) -> list[HistoryPoint | None]:
    """The points with the verdict `stalled` from `start` to `end`, `moving` before and after."""
    return [
        None
        if point is None
        else replace(point, verdict="stalled", age_ms=(n - start + 51) * 60 * SECOND)
        if start <= n <= end
        else replace(point, verdict="moving", age_ms=0)
        for n, point in enumerate(points)
    ]


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
    points = with_verdicts(reported("A" * 70 + "B" * 130, level=level, late=late), 50, 149)
    assert [mark.kind for mark in marks_of(points, play_times(points))] == ["late", "stall", "holder"]


def test_the_lag_of_a_query_with_one_clock_is_behind_the_clock() -> None:
    """No channel holds it back, and none is ahead of it."""
    points = reported("..........", level=[0] * 10)
    left = Timeline(points, play_times(points), ()).draw(80, 2)[1][0][0]
    assert "lag ≤9s" in left
    old = [replace(point, now_ms=point.now_ms + 400 * 86_400_000) for point in points if point is not None]
    assert "lag" not in Timeline(old, play_times(old), ()).draw(80, 2)[1][0][0]
