"""Doctor, Progress, Operators and Time as pictures that were looked at and accepted: look again, then update them."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from wmtop.engine.feed.messages import FromEngine
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.snapshot import Snapshot, SourcePosition, SparkProgress, WatermarkNode
from wmtop.engine.verdict.history import Phases
from wmtop.engine.watermarks.counts import PointSample
from wmtop.tui.screens.app import WmtopApp

from tests.snapshots import replace

from ...doctor import patients
from ...doctor.patients import before, healthy
from .. import canned
from ..canned import LEVEL, MINUTE, attached, reported
from .test_doctor import history, ill
from .test_main_pictures import DRAWN, LARGE, SMALL, Compare

FLIGHTS = Path(__file__).parents[2] / "doctor" / "flights-lateness-30m.rec"


def flights() -> Sequence[FromEngine]:
    """A day of flights, every tenth snapshot of it, with the records in all of them."""
    with RecordingReader(FLIGHTS) as recording:
        *earlier, last = recording
        sample = PointSample(point for snapshot in earlier for point in snapshot.points)
        points = [point for point in recording.points[:-1] if point is not None]
        return [replace(recording.header, history=points, points=sample.points), last]


def kafka() -> Sequence[FromEngine]:
    """Six partitions, two of them far behind, and batches that take longer and longer."""
    unread = ((81_204, 41_000), (40_300, 22_000), (0, 0), (1_204, 900), (7, 20), (0, 0))
    views = [
        patients.channel(f"orders-{n}", 700 * n, backlog=backlog, behind_end_ms=behind)
        for n, (backlog, behind) in enumerate(unread)
    ]
    phases = {"addBatch": 1_000, "walCommit": 120, "commitOffsets": 80, "queryPlanning": 60, "latestOffset": 50}
    spark = SparkProgress(5_402.0, 4_120.0, batch_ms=1_310, phases_ms=phases)
    snapshot = healthy(views, spark=spark)
    past = before(
        snapshot,
        500,
        batch_ms=lambda ago: 1_310 - 2 * ago,
        phases=lambda ago: Phases(50, 60, 1_000 - 2 * ago, 200),
        backlog=lambda ago: 122_715 - 220 * ago,
        state_rows=lambda ago: 1_800 + 30 * (ago % 60),
        results=lambda ago: 5_000 - ago // 10 * 6,
    )
    return [canned.header(past), snapshot]


def of_others() -> Sequence[FromEngine]:
    """An existing query, with two watermark nodes."""
    spark = SparkProgress(
        input_rows_per_second=840.0,
        watermark_ms=LEVEL + 1,
        batch_watermark_ms=LEVEL + 1 - MINUTE,
        nodes=[WatermarkNode("ts", 30 * MINUTE, LEVEL + 1), WatermarkNode("event_time", 10_000)],
        policy="min",
        state_rows=123_456,
        state_bytes=34_000_000,
        dropped_at_least=41,
    )
    sources = [SourcePosition("kafka orders, 6 partitions", {"orders/0": 4_117}, 3_204), SourcePosition("files /in", 7)]
    return [canned.header(), replace(attached(), spark=spark, sources=sources)]


def one(build: Callable[[], Snapshot]) -> Sequence[FromEngine]:
    return reported(build())


def sick() -> Sequence[FromEngine]:
    return [history(ill()), ill()]  # type: ignore[list-item]


def shown(messages: Sequence[FromEngine], *keys: str) -> dict[str, Any]:
    """An app that got the messages, and the keys to press once it shows them."""
    client = canned.CannedClient(*messages)

    async def pressed(pilot: "Pilot[Any]") -> None:
        while not client.drained():
            await pilot.pause(0.01)
        await pilot.pause(0.1)
        await pilot.press(*keys)
        await pilot.pause(0.1)

    return {"app": WmtopApp(client, on_quit="leave", clock=canned.Clock()), "run_before": pressed}


PICTURES = {
    "doctor_drawn": (sick, DRAWN, ("d",)),
    "doctor_small_evidence_light": (sick, SMALL, ("c", "d", "down", "space")),
    "doctor_small": (sick, SMALL, ("d", "down")),
    "doctor_nothing_attached": (partial(one, attached), DRAWN, ("d",)),
    "progress_drawn": (kafka, DRAWN, ("g",)),
    "progress_small": (flights, SMALL, ("g",)),
    "progress_attached": (of_others, DRAWN, ("g",)),
    "operators_drawn": (flights, DRAWN, ("o",)),
    "operators_small_instances": (partial(one, canned.instances), SMALL, ("o", "enter", "down")),
    "operators_attached": (of_others, DRAWN, ("o",)),
    "time_drawn": (flights, DRAWN, ("t",)),
    "time_small": (flights, SMALL, ("t", "z")),
    "time_large_light_preview": (flights, LARGE, ("c", "t", "plus", "plus", "plus")),
    "time_empty": (partial(one, canned.empty), SMALL, ("t",)),
}


@pytest.mark.parametrize("name", PICTURES)
def test_picture(name: str, snap_compare: Compare) -> None:
    build, size, keys = PICTURES[name]
    assert snap_compare(**shown(build(), *keys), terminal_size=size)


@pytest.mark.parametrize(
    ("build", "keys"), [(sick, ("d",)), (kafka, ("g",)), (flights, ("t",))], ids=["doctor", "progress", "time"]
)
def test_picture_without_colours(
    build: Callable[[], Sequence[FromEngine]],
    keys: tuple[str, ...],
    snap_compare: Compare,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert snap_compare(**shown(build(), *keys), terminal_size=SMALL)
