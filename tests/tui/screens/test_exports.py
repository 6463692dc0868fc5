"""What a screen gives away: copies of the selected row, and its table as a file."""

import csv
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from msgspec.structs import replace
from wmtop.engine.snapshot import ExplainedColumn, ExplainedValue
from wmtop.tui.screens.base_app import self_contained
from wmtop.tui.screens.target_screen import FURTHER
from wmtop.tui.words.texts import NOTHING_MATCHES, as_csv

from ..canned import HOUR, channel, live, recent, reported
from ..drive import Driven, drive


def test_copy_selected_row_and_name() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("y")
        assert it.app.clipboard == "F9"  # nothing is selected: the holder
        assert it.toasts() == ["Copied (if the terminal allows it): F9"]
        await it.press("right", "right", "Y")
        assert it.app.clipboard.startswith("YV")
        assert "13:56:59" in it.app.clipboard
        assert ": YV" in it.toasts()[-1]
        await it.press("h", "y")
        assert it.app.clipboard == "F9"
        assert it.toasts()[-1].endswith(": F9")
        await it.press("escape", "w", "y")
        assert it.app.clipboard == "13:00–14:00"
        assert it.toasts()[-1].endswith(": 13:00–14:00")
        await it.press("escape", "t", "y")
        assert it.app.clipboard == "13:00–14:00"
        assert it.toasts()[-1] == "Nothing is selected here"

    drive(scenario, *reported(live()))


def test_copy_filtered_channels_takes_the_first() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("slash", *"^(YV|AS)$", "enter", "y")
        assert it.app.clipboard == "YV"  # the holder is not among them

    drive(scenario, *reported(live()))


@pytest.mark.parametrize("name", ["", *(name for name in FURTHER if name != "Time")])
def test_save_table_never_overwrites_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(it: Driven) -> None:
        if name:
            await it.app.screen.run_action(f"detail('{name}')")
            await it.pilot.pause()
        await it.press("X", "X", "J")

    drive(scenario, *reported(live(explain=[ExplainedColumn("device", [ExplainedValue("d17", 90, 900, 9.9)])])))
    files = sorted(path.name for path in tmp_path.iterdir())
    assert [file.rpartition("-")[2] for file in files] == ["1.csv", "1.json", "2.csv"], files
    rows = json.loads((tmp_path / files[1]).read_text())
    with (tmp_path / files[0]).open() as lines:
        table = list(csv.DictReader(lines))
    assert len(table) == len(rows) > 0


def test_save_channels_filtered_keeps_the_shown_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(it: Driven) -> None:
        await it.press("slash", *"^(YV|F9|AS)$", "enter", "s", "J")

    drive(scenario, *reported(live()))
    (path,) = tmp_path.iterdir()
    rows = json.loads(path.read_text())
    assert [row["channel"] for row in rows] == ["AS", "F9", "YV"]
    assert rows[0]["watermark_ms"] == next(v.watermark_ms for v in live().channels if v.channel == "AS")


def test_save_lateness_writes_the_shown_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown = live(whatif_recent=recent())
    hour = next(part for part in recent() if part.horizon_ms == HOUR)
    part = shown.lateness_by_channel[0]

    async def scenario(it: Driven) -> None:
        await it.press("l", "J", "H", "H", "J", "down", "J")

    drive(scenario, *reported(shown))
    saved = {path.name.split("-", 2)[2]: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert sorted(saved) == ["lateness-1.json", "lateness-1h-1.json", "lateness-of-channel-1.json"]
    assert [row["late"] for row in saved["lateness-1h-1.json"]] == [row.late for row in hour.rows]
    [first, *_] = saved["lateness-of-channel-1.json"]
    assert (first["of"], first["behind_watermark"]) == (part.channel, sum(part.behind))


def test_csv_formula_is_escaped_and_unknown_is_empty() -> None:
    lines = as_csv([channel("=1+1", None), replace(channel("a,b", 0), late=None)]).splitlines()
    rows = list(csv.DictReader(lines))
    assert [row["channel"] for row in rows] == ["'=1+1", "a,b"]
    assert rows[0]["watermark_ms"] == ""
    assert rows[1]["late"] == ""


def test_no_file_has_what_a_terminal_obeys_and_the_picture_is_xml() -> None:
    odd, shown = "\x1b]0;x\x07\x9b\ud800", "\\u001b]0;x\\u0007\\u009b\\ud800"
    assert ElementTree.fromstring(self_contained(f"<svg><text>{odd}</text></svg>"))[0].text == shown  # noqa: S314 - our own
    [row] = csv.DictReader(as_csv([channel(odd, None)]).splitlines())
    assert row["channel"] == shown


@pytest.mark.parametrize("key", ["b", "w", "o", "d", "h"])
def test_filter_without_a_match_says_so(key: str) -> None:
    async def scenario(it: Driven) -> None:
        await it.press(key, "slash", *"zzz")
        await it.says(NOTHING_MATCHES, "Sheet")
        assert "No findings" not in it.said()
        await it.says("/zzz  0 of ", "#top")
        await it.press("left_square_bracket")
        assert "unterminated" in str(it.app.screen.query_one("#prompt-note").render())
        await it.press("escape")
        assert NOTHING_MATCHES not in it.said()
        assert "/zzz" not in it.said("#top")
        assert len(it.app.screen_stack) == 3  # Esc cleared the filter and left the screen open
        await it.press("escape")
        assert len(it.app.screen_stack) == 2

    drive(scenario, *reported(live()))


def test_save_filtered_list_has_all_rows_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(it: Driven) -> None:
        directory = tmp_path.name  # it has the name of the test in it
        await it.press("b", "J")
        assert "filter" not in it.toasts()[-1].replace(directory, "")
        await it.press("slash", *"yv", "enter", "J")
        assert "filter" in it.toasts()[-1].replace(directory, "")

    drive(scenario, *reported(live()))
    first, second = sorted(tmp_path.iterdir())
    assert first.read_text() == second.read_text()


def test_filter_leaves_the_matching_rows() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("b", "slash", *"^ *[0-9]+ *yv", "enter")
        await it.says("YV", "Sheet")
        assert "/^ *[0-9]+ *yv  1 of" in it.said("#top")
        await it.press("y")
        assert it.app.clipboard == "YV"

    drive(scenario, *reported(live()))
