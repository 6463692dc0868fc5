"""The keys of the fleet that work everywhere: copies, files, the theme; and a terminal that is too small for it."""

import asyncio
import csv
import json
import signal
import subprocess
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from textual.pilot import Pilot
from wmtop.tui.screens.base_app import TooSmallScreen
from wmtop.tui.screens.fleet import FleetApp
from wmtop.tui.widgets.lines import KeyLine, TextLine
from wmtop.tui.widgets.themes import DARK
from wmtop.tui.words.fleet import FleetRow, about
from wmtop.tui.words.spans import text_of
from wmtop.tui.words.texts import Appearance
from wmtop.tui.words.user_commands import UserCommand, use_commands

from .test_fleet_pictures import rows


def fleet(scenario: Callable[["Pilot[str]"], Awaitable[None]], preferences_file: Path | None = None) -> FleetApp:
    app = FleetApp(rows, Appearance(refresh_ms=100), preferences_file=preferences_file)

    async def run() -> None:
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.pause()
            await scenario(pilot)

    asyncio.run(run())
    return app


def test_fleet_copy_takes_the_selected_target() -> None:
    async def scenario(pilot: "Pilot[str]") -> None:
        await pilot.press("j", "k", "y")
        assert pilot.app.clipboard == "flights"
        await pilot.press("Y")
        assert pilot.app.clipboard.startswith("● STALLED")
        assert "flights" in pilot.app.clipboard
        await pilot.press("slash", *"zzz", "enter", "y")
        assert pilot.app.clipboard.startswith("● STALLED")  # nothing matches: nothing was copied

    fleet(scenario)


def test_fleet_save_writes_the_filtered_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(pilot: "Pilot[str]") -> None:
        await pilot.press("X", "slash", *"cli", "enter", "J")

    fleet(scenario)
    with (tmp_path / "wmtop-fleet-targets-1.csv").open() as lines:
        table = list(csv.DictReader(lines))
    [one] = json.loads((tmp_path / "wmtop-fleet-targets-1.json").read_text())
    assert {row["target"] for row in table} == {row.target for row in rows()}
    assert (one["target"], one["verdict"]) == ("clicks", "moving")
    [lost] = [row for row in table if row["target"] == "returns"]
    assert lost["findings"] == lost["watermark_ms"] == ""  # not known is empty


def test_fleet_command_gets_the_target_s_facts_and_ctrl_c_ends_the_command_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ran: list[tuple[list[str], str]] = []

    def run(arguments: list[str], env: dict[str, str], check: bool) -> "subprocess.CompletedProcess[str]":
        ran.append((arguments, env["WMTOP_ROW_VERDICT"]))
        assert callable(signal.getsignal(signal.SIGINT))  # not ignored: the command would ignore it, too
        assert signal.getsignal(signal.SIGINT) is not before
        return subprocess.CompletedProcess(arguments, 0)

    async def scenario(pilot: "Pilot[str]") -> None:
        await pilot.press("f2")
        assert "F2 logs" in pilot.app.screen.query_one(KeyLine).render_line(0).text
        await pilot.press("question_mark")
        assert any("its logs" in str(part.render()) for part in pilot.app.screen.query("Static"))

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr("builtins.input", str)
    monkeypatch.setattr(FleetApp, "suspend", lambda self: nullcontext())
    use_commands({"logs": UserCommand("f2", ("kubectl", "logs", "{target}"), "its logs")})
    try:
        fleet(scenario)
    finally:
        use_commands({})
    assert ran == [(["kubectl", "logs", "flights"], "stalled")]
    assert signal.getsignal(signal.SIGINT) is before


def test_fleet_theme_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "screen.json"

    async def scenario(pilot: "Pilot[str]") -> None:
        await pilot.press("c")

    chosen = fleet(scenario, path).theme
    assert chosen != DARK.name
    assert FleetApp(rows, Appearance(), preferences_file=path).theme == chosen


def test_fleet_too_small_terminal_is_covered_until_it_grows() -> None:
    async def scenario(pilot: "Pilot[str]") -> None:
        await pilot.resize_terminal(40, 10)
        await pilot.pause()
        assert isinstance(pilot.app.screen, TooSmallScreen)
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert not isinstance(pilot.app.screen, TooSmallScreen)

    fleet(scenario)


def test_fleet_about_line_has_what_the_table_cuts() -> None:
    async def scenario(pilot: "Pilot[str]") -> None:
        line = pilot.app.screen.query_one("#about", TextLine)
        await pilot.press("j")
        assert "access denied; check the credentials" in text_of(line.draw(120, 1)[0])
        await pilot.press("k")
        assert "access denied" not in text_of(line.draw(120, 1)[0])

    fleet(scenario)


def test_fleet_a_lost_target_s_reason_is_cut_after_a_clause() -> None:
    reason = "there is no file /nowhere: give a run, a directory or an event log"
    row = FleetRow(target="gone", kind="–", lost="lost", reason=reason)
    assert [text_of(one.spans).strip() for one in about(row, 40)] == ["gone", "there is no file /nowhere"]


def test_fleet_wrong_filter_changes_nothing() -> None:
    async def scenario(pilot: "Pilot[str]") -> None:
        await pilot.press("slash", *"cli", "left_square_bracket")
        assert "unterminated" in str(pilot.app.screen.query_one("#prompt-note").render())

    fleet(scenario)
