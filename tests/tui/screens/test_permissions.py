"""A served screen writes no files, a read-only one changes no engine: by no key, click, palette entry or help line."""

from pathlib import Path

import pytest
from wmtop.engine.feed.messages import Change
from wmtop.tui.screens.base_app import CHANGES_ENGINE, READ_ONLY, WRITES_FILES, denied_to

from .. import attached
from ..canned import live, reported
from ..drive import Driven, drive
from ..recorded import record, replay

WRITING_KEYS = ("S", "R", "X", "J", "E")


def test_what_is_denied() -> None:
    assert denied_to(served=False, read_only=False) == frozenset()
    assert denied_to(served=True, read_only=False) == WRITES_FILES | {"user_command"}
    assert denied_to(served=True, read_only=True) == WRITES_FILES | CHANGES_ENGINE | {"user_command"}


def titles(it: Driven) -> set[str]:
    return {command.title for command in it.app.get_system_commands(it.app.screen)}


async def offers(it: Driven) -> str:
    """Everything that the footer and the help say."""
    said = it.said()
    await it.press("question_mark")
    helped = "\n".join(str(widget.render()) for widget in it.app.screen.query("#help Static"))
    await it.press("escape")
    return said + helped


@pytest.mark.parametrize("screen", ["", "w", "d"])
def test_a_served_screen_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, screen: str) -> None:
    monkeypatch.chdir(tmp_path)

    async def scenario(it: Driven) -> None:
        await it.press(*screen)
        said = await offers(it)
        for word in (" S ", "SVG", " R ", "record what", "CSV"):
            assert word not in said
        await it.press(*WRITING_KEYS, "question_mark", *WRITING_KEYS)
        for action in WRITES_FILES:
            await it.app.run_action(action)
        written = {"Save SVG", "Record or stop", "Save as CSV", "Save as JSON", "Incident report"}
        assert not titles(it) & written
        assert not any("saved" in toast or "record" in toast.split("(")[0] for toast in it.toasts())

    drive(scenario, *reported(live()), size=(200, 50), denied=denied_to(served=True, read_only=False))
    assert list(tmp_path.iterdir()) == []


def test_a_served_recording_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(tmp_path / "a.rec")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    async def scenario(it: Driven) -> None:
        assert "SVG" not in await offers(it)
        await it.press(*WRITING_KEYS)
        assert "Save SVG" not in titles(it)

    replay(scenario, path, (200, 50), denied=WRITES_FILES)
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("screen", ["", "l"])
def test_a_read_only_screen_applies_nothing(screen: str) -> None:
    async def scenario(it: Driven) -> None:
        await it.press(*screen)
        await it.press("plus")
        said = await offers(it)
        assert "apply" not in said.casefold()
        await it.press("enter")
        await it.press("plus", "enter")
        assert set(it.toasts()) == {READ_ONLY}
        assert not any(isinstance(sent, Change) for sent in it.client.sent)

    drive(scenario, *reported(live()), size=(200, 50), denied=CHANGES_ENGINE)


def test_without_that_they_do() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("plus")
        said = await offers(it)
        assert all(word in said for word in ("SVG", " R ", "record what", "apply"))
        assert titles(it) >= {"Save SVG", "Record or stop"}
        await it.press("enter")
        assert any(isinstance(sent, Change) for sent in it.client.sent)

    drive(scenario, *reported(live()), size=(200, 50))


def test_the_line_for_the_job_is_still_copied() -> None:
    """Of an attached query nothing is changed: Enter copies the line to change in its job."""

    async def scenario(it: Driven) -> None:
        await it.press("equals_sign", *"45s", "enter")
        assert not any(isinstance(sent, Change) for sent in it.client.sent)
        await it.says("withWatermark", "Barrel")
        assert READ_ONLY not in it.toasts()

    drive(scenario, *reported(attached.query()), denied=CHANGES_ENGINE)


def test_the_picture_of_the_help_is_saved_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wmtop-flights-1.svg").write_text("precious")

    async def scenario(it: Driven) -> None:
        await it.press("question_mark", "S")

    drive(scenario, *reported(live()))
    assert (tmp_path / "wmtop-flights-1.svg").read_text() == "precious"
    assert "Help" in (tmp_path / "wmtop-flights-2.svg").read_text()
