"""The late records: reached from a channel, a window and the doctor; the line that fetches one is copied."""

from typing import Any

import pytest
from wmtop.engine.snapshot import LateRecord, Snapshot, SourceView
from wmtop.tui.screens.lateness import LateRecordsScreen
from wmtop.tui.words.windows import key_of

from ..canned import HOUR, LEVEL, MINUTE, NOON, live, reported
from ..drive import Driven, drive
from .test_detail_pictures import SMALL, Compare, shown


def records(kafka: bool = False) -> list[LateRecord]:
    """Of two batches and two channels; all in the hour from noon."""
    found: list[LateRecord] = []
    for place, (batch, name) in enumerate([(41, "UA"), (41, "F9"), (38, "UA")]):
        time, end = NOON + (50 - 7 * place) * MINUTE, NOON + HOUR
        position: dict[str, Any] = {"topic": "flights", "partition": place, "offset": 4_100_200 - place}
        found.append(LateRecord(batch, name, time, LEVEL, end, LEVEL - end + 1, **(position if kafka else {})))
    return found


def with_late(kafka: bool = False) -> Snapshot:
    kind = SourceView("kafka", "flights", bootstrap="broker-1:9092") if kafka else SourceView("replay", "flights")
    return live(source=kind, late_output="/data/late", late_sample=records(kafka))


def test_late_records_of_a_channel_have_a_fetch_line() -> None:
    async def scenario(it: Driven) -> None:
        it.app.screen.open_channel("UA")  # type: ignore[attr-defined]
        await it.pilot.pause()
        await it.press("L")
        await it.says("batch=41", "#fetch")
        assert "F9" not in it.said("#late-records")
        await it.press("down", "y")
        assert it.app.clipboard.startswith("select * from read_parquet('/data/late/batch=38/*.parquet') where")
        await it.press("escape")
        await it.says("late records", "#keys")

    drive(scenario, *reported(with_late()))


def test_late_records_of_a_window_are_its_own() -> None:
    snapshot = with_late(kafka=True)
    window = next(window for window in (*snapshot.windows.last_fired, *snapshot.windows.open))

    async def scenario(it: Driven) -> None:
        it.app.screen.open_window(key_of(window))
        await it.pilot.pause()
        await it.press("L")
        inside = [record for record in records() if window.start_ms <= record.time_ms < window.end_ms]
        screen = it.app.screen
        assert isinstance(screen, LateRecordsScreen)
        assert len(screen.records().rows) == len(inside)

    drive(scenario, *reported(snapshot))


def test_late_records_without_late_output_say_how_to_get_one() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "L")
        await it.says("--late-output DIR", "#fetch")
        await it.press("y")
        assert it.app.clipboard == ""

    drive(scenario, *reported(live()))


@pytest.mark.parametrize("name", ["kafka", "files", "none"])
def test_picture(name: str, snap_compare: Compare) -> None:
    snapshot = live() if name == "none" else with_late(kafka=name == "kafka")
    assert snap_compare(**shown(snapshot, "d", "L", "down"), terminal_size=SMALL)
