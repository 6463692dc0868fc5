"""A replay as pictures that were looked at and accepted: after a change, look again, then `--snapshot-update`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.tui.replay.app import ReplayApp
from wmtop.tui.replay.timeline import Timeline

from ..canned import Clock
from ..recorded import record

Compare = Callable[..., bool]
SMALL, DRAWN = (80, 24), (120, 36)


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[RecordingReader]:
    path = record(tmp_path / "flights.rec")
    path.write_bytes(path.read_bytes()[:-1])  # not closed: it says so
    with RecordingReader(path) as reader:
        yield reader


@pytest.mark.parametrize(
    ("size", "keys", "colours"),
    [(DRAWN, ("n",), True), (SMALL, ("n", "n", "plus"), True), (DRAWN, ("n", "n", "G", "1", "4", ":"), False)],
    ids=["drawn", "small_preview", "drawn_time_without_colours"],
)
def test_picture(
    size: tuple[int, int],
    keys: tuple[str, ...],
    colours: bool,
    reader: RecordingReader,
    snap_compare: Compare,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not colours:
        monkeypatch.setenv("NO_COLOR", "1")

    async def before(pilot: "Pilot[Any]") -> None:
        while not pilot.app.screen.query(Timeline):
            await pilot.pause(0.01)
        await pilot.press(*keys)
        await pilot.pause(0.4)

    app = ReplayApp(reader, playing=False, clock=Clock())
    assert snap_compare(app, run_before=before, terminal_size=size)
