"""What a screen that is open for hours must not keep: past snapshots as objects, and screens that were closed."""

import gc

from textual.screen import Screen
from textual.timer import Timer
from textual.widget import Widget
from wmtop.engine.snapshot import Snapshot
from wmtop.tui.screens.app import WmtopApp
from wmtop.tui.words.keys import LINKS

from ..canned import WALL, live, reported
from ..drive import Driven, drive


def alive(kind: type[object]) -> int:
    """How many there are, once what nobody refers to is gone."""
    gc.collect()
    return sum(issubclass(type(one), kind) for one in gc.get_objects())


def test_past_snapshots_are_not_kept_as_objects() -> None:
    """300 of 100 channels are 42 MB: five minutes at one a second; a fast run has four a second."""

    async def scenario(it: Driven) -> None:
        await it.push(live(wall_ms=WALL))
        before = alive(Snapshot)
        for second in range(1, 21):
            await it.push(live(wall_ms=WALL + 1_000 * second))
        assert alive(Snapshot) <= before + 3

    drive(scenario, *reported(live()))


def test_an_app_that_ended_is_gone() -> None:
    """The fleet opens one for each target that is looked at."""

    async def scenario(it: Driven) -> None:
        await it.press("l")

    before = alive(WmtopApp)
    for _ in range(2):
        drive(scenario, *reported(live()))
    assert alive(WmtopApp) <= before


def test_closed_screens_are_gone() -> None:
    async def scenario(it: Driven) -> None:
        def counts() -> tuple[int, ...]:
            return alive(Screen), alive(Widget), alive(Timer)

        before = counts()
        for _ in range(3):
            for link in LINKS:
                await it.press(link.key)
            await it.press("question_mark", "escape", "escape")
        # Textual removes a closed screen some time later.
        await it.until(lambda: all(now <= then for then, now in zip(before, counts(), strict=True)))

    drive(scenario, *reported(live()))
