"""From the fleet to a target and back: one that is watched, and an engine that runs here."""

import asyncio
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing
from typing import Any

import pytest
from textual.pilot import Pilot
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.host import Host
from wmtop.engine.feed.messages import Header
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.errors import RunError
from wmtop.engine.targets.fleet import TargetWatch, Watcher, WatchTarget
from wmtop.engine.targets.own import running_engine
from wmtop.tui.cli.fleet import FleetRows, WatchedFeed, feed_of, watcher_of
from wmtop.tui.cli.targets import members
from wmtop.tui.screens.app import WmtopApp
from wmtop.tui.screens.fleet import FleetApp
from wmtop.tui.words.texts import Appearance

from tests.snapshots import replace

from ....feed.hosts import host_alone
from ....refusals import refused
from .test_fleet import HEALTHY, Shows, until


async def soon(true: Callable[[], bool], pilot: "Pilot[Any]") -> None:
    for _ in range(1_000):
        if true():
            return
        await pilot.pause(0.01)
    raise AssertionError("it never came to be so")


async def opened_from(watcher: Watcher) -> str | None:
    """The target that Enter opens."""
    app = FleetApp(FleetRows(watcher).rows, Appearance(refresh_ms=100))
    async with app.run_test() as pilot:
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
    return app.return_value


async def look_and_go_back(app: WmtopApp, batch: int | None, then: Callable[["Pilot[Any]"], Any]) -> str | None:
    app.of_fleet = True
    async with app.run_test(size=(120, 36)) as pilot:
        await soon(lambda: app._snapshot is not None and app._snapshot.batch == batch, pilot)
        await then(pilot)
        await pilot.press("b")
        await pilot.pause()
        await pilot.press("escape")  # from the blockers to the target
        await pilot.pause()
        assert app.is_running
        assert app.return_value is None
        await pilot.press("escape")
        await pilot.pause()
    return app.return_value


def test_a_watched_target_opens_cannot_be_changed_and_esc_goes_back() -> None:
    shows = Shows(HEALTHY)
    watcher = Watcher(lambda: [WatchTarget("orders", lambda: shows)])
    watcher.start()
    until(lambda: any(row.findings is not None for row in FleetRows(watcher).rows()))

    async def scenario() -> None:
        name = await opened_from(watcher)
        watch = watcher.watch(name or "")
        assert isinstance(watch, TargetWatch)
        app = WmtopApp(WatchedFeed(watch), on_quit="leave")

        async def change(pilot: "Pilot[Any]") -> None:
            await pilot.press("plus", "enter")
            await soon(lambda: len(app._notifications) > 0, pilot)
            assert app._snapshot is not None
            assert app._snapshot.settings == HEALTHY.settings

        assert await look_and_go_back(app, HEALTHY.batch, change) == "fleet"
        assert watch._listeners == []
        until(lambda: FleetRows(watcher).rows()[0].lost is None)

    try:
        asyncio.run(scenario())
    finally:
        watcher.stop()


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as directory:
        monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, directory)
        with host_alone(monkeypatch) as made:
            made.started()
            yield made


def test_an_engine_opens_and_esc_goes_back_while_the_fleet_keeps_watching(engine: Host) -> None:
    def batch(number: int) -> Snapshot:
        return replace(HEALTHY, name="flights", batch=number, wall_ms=time.time_ns() // 1_000_000)

    engine.publish(batch(1))
    watcher = watcher_of(members, 0.1)
    watcher.start()
    until(lambda: any(row.findings is not None for row in FleetRows(watcher).rows()))

    async def scenario() -> None:
        assert await opened_from(watcher) == "flights"
        found = running_engine("flights")
        assert found is not None
        app = WmtopApp(found.client(read_only=False), on_quit="leave")

        async def next_batch(pilot: "Pilot[Any]") -> None:
            engine.publish(batch(2))
            await soon(lambda: app._snapshot is not None and app._snapshot.batch == 2, pilot)

        assert await look_and_go_back(app, 1, next_batch) == "fleet"
        engine.publish(batch(3))  # the fleet still sees it
        watch = watcher.watch("flights")
        assert watch is not None
        until(lambda: watch.status.snapshot is not None and watch.status.snapshot.batch == 3)

    try:
        asyncio.run(scenario())
    finally:
        watcher.stop()


def test_a_run_that_has_taken_the_name_is_not_opened_in_place_of_the_one_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async def introduced(watch: TargetWatch) -> str:
        async with aclosing(feed_of(watch, "flights").messages()) as messages:
            header = await anext(messages)
            assert isinstance(header, Header)
            return header.id

    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as directory:
        monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, directory)
        watcher = watcher_of(members, 0.1)
        with host_alone(monkeypatch) as shown:
            shown.started()
            watcher.start()
            try:
                until(lambda: (seen := watcher.watch("flights")) is not None and seen.header is not None)
            finally:
                watcher.stop()
            watch = watcher.watch("flights")
            assert watch is not None
            assert watch.header is not None
            assert asyncio.run(introduced(watch)) == watch.header.id
        with host_alone(monkeypatch) as other:
            other.started()
            with refused(RunError, "another_run"):
                asyncio.run(introduced(watch))
