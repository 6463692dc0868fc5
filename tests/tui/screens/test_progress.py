"""Progress: the history by columns, the stacked bars, and the screen."""

from wmtop.engine.snapshot import SparkProgress
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.words.texts import BACKLOG_BY_SOURCE

from ...doctor.patients import before, channel, healthy
from .. import canned
from ..canned import WALL, live
from ..drive import Driven, drive


def test_the_screen_on_a_live_engine() -> None:
    views = [channel("orders-0", backlog=81_204, behind_end_ms=41_000), channel("orders-1", backlog=7)]
    snapshot = healthy(views, spark=SparkProgress(batch_ms=1_310, input_rows_per_second=5_402.0))

    async def scenario(it: Driven) -> None:
        await it.press("g")
        said = it.said("Charts")
        assert "rows in" in said
        assert "5,402/s" in said
        assert "81,211, 41s" in said
        assert BACKLOG_BY_SOURCE in said
        assert "now" in said
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, canned.header(before(snapshot)), snapshot, size=(80, 24))


def test_a_frozen_picture_does_not_change() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("g", "p")
        shown_before = it.said("Charts")
        await it.push(live(wall_ms=WALL + 60_000, spark=SparkProgress(batch_ms=9_999)))
        await it.press("T")
        assert it.said("Charts") == shown_before

    drive(scenario, *canned.reported(live()))
