"""`make pictures`: the README's pictures, taken from a real run with the keyboard alone.

The demo's engine replays the flights, headless and without an idle timeout, and writes a recording; the screen is
connected to it without a terminal. Pictures are taken from the moment of the story on: in the afternoon of 11 July AS
has been silent for hours and holds back the watermark of the query. Times that depend on the machine (of a batch, rows
a second) differ from run to run, the story does not.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path

from textual.pilot import Pilot
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.client import Client
from wmtop.engine.feed.messages import FromEngine
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.snapshot import Snapshot
from wmtop.tui.cli.engines import EngineProcess
from wmtop.tui.replay.app import ReplayApp
from wmtop.tui.screens.app import WmtopApp
from wmtop.tui.screens.base_app import self_contained

OUT = Path(__file__).parents[1] / "tui" / "pictures"
SIZE = (120, 36)
NAME = "flights"
STORY_MS = int(datetime(2013, 7, 11, 20, 0, tzinfo=UTC).timestamp() * 1000)
HELD_MS = 60 * 60_000
START_S, STORY_S, DRAWN_S, STEP_S = 120, 300, 0.3, 0.1

PICTURES = (
    ("main", (), ()),
    ("channel", ("enter",), ("escape",)),
    ("windows", ("w",), ("escape",)),
    ("doctor", ("d",), ("escape",)),
    ("idle", ("l", "i", "up", "up"), ("escape",)),
    ("preview", ("left_square_bracket", "left_square_bracket"), ("escape",)),
    ("lateness", ("l", "plus", "plus"), ("escape", "escape")),
    ("time", ("t",), ("escape",)),
    ("operators", ("o",), ("escape",)),
    ("progress", ("g",), ("escape",)),
    ("history", ("h",), ("escape",)),
)
"""Name, the keys that lead there from the main screen, the keys that lead back."""


class Watched(Client):
    """The engine's stream, which remembers the newest snapshot."""

    newest: Snapshot | None = None

    async def messages(self) -> AsyncGenerator[FromEngine, None]:
        async with aclosing(super().messages()) as messages:
            async for message in messages:
                if isinstance(message, Snapshot):
                    self.newest = message
                yield message


def is_the_story(snapshot: Snapshot | None) -> bool:
    """Whether a quiet channel has held back the watermark for a good while on that morning."""
    if snapshot is None or snapshot.now_ms is None or (holder := snapshot.level.holder) is None:
        return False
    return snapshot.now_ms >= STORY_MS and holder.cause == "quiet" and snapshot.now_ms - holder.since_ms >= HELD_MS


async def until(true: Callable[[], bool], timeout_s: float) -> None:
    """Wait until something is so."""
    for _ in range(int(timeout_s / STEP_S)):
        if true():
            return
        await asyncio.sleep(STEP_S)
    raise TimeoutError(f"the condition was not met within {timeout_s:g} s")


async def press(pilot: Pilot[object], *keys: str) -> None:
    """Press keys, one after the other, and let the screen draw."""
    for key in keys:
        await pilot.press(key)
    await pilot.pause(DRAWN_S)


def save(app: WmtopApp, name: str) -> None:
    """Write what the app shows as a picture of the README."""
    (OUT / f"{name}.svg").write_text(self_contained(app.export_screenshot()), encoding="utf-8")


async def take_live(client: Watched) -> None:
    """The pictures of the running engine."""
    app = WmtopApp(client, on_quit="leave")
    async with app.run_test(size=SIZE, notifications=True) as pilot:
        await until(lambda: client.newest is not None, START_S)
        await until(lambda: is_the_story(client.newest), STORY_S)
        for name, there, back in PICTURES:
            await press(pilot, *there)
            save(app, name)
            await press(pilot, *back)


async def take_replay(recording: Path) -> None:
    """The picture of the recording."""
    with RecordingReader(recording) as reader:
        app = ReplayApp(reader, number=reader.seek(STORY_MS), playing=False)
        async with app.run_test(size=SIZE) as pilot:
            await pilot.pause(DRAWN_S)
            save(app, "replay")


async def take_attached(checkpoint: Path) -> None:
    """The picture of an attached job, with a preview of another delay."""
    command = [sys.executable, "-m", "benchmarks.job", str(checkpoint)]
    job = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        await until(lambda: (checkpoint / "commits" / "40").exists(), START_S)
        engine = EngineProcess(["attach", str(checkpoint)], run_directory.claim("orders", "a job", 0), tied=True)
        client = Watched(run_directory.socket_path("orders"), alive=engine.died)
        app = WmtopApp(client, on_quit="leave")
        async with app.run_test(size=SIZE, notifications=True) as pilot:
            await until(lambda: client.newest is not None and client.newest.verdict.verdict != "unknown", STORY_S)
            await press(pilot, "plus", "plus")
            save(app, "attached")
        engine.stop()
    finally:
        assert job.stdin is not None
        job.stdin.close()
        job.wait()


async def take_flink() -> None:
    """The picture of a Flink job: the flights in a real Flink, once there is a verdict."""
    engine = EngineProcess(["demo", "--flink"], run_directory.claim("flink", "flights", 0), tied=True)
    try:
        client = Watched(run_directory.socket_path("flink"), alive=engine.died)
        app = WmtopApp(client, on_quit="leave")
        async with app.run_test(size=SIZE) as pilot:
            await until(lambda: client.newest is not None and client.newest.verdict.verdict != "unknown", STORY_S)
            await pilot.pause(DRAWN_S)
            save(app, "flink")
    finally:
        engine.stop()


def main() -> None:
    """Take all of them; with `flink` or `attached` as the argument only that one."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="wmtop-pictures-", dir="/tmp") as directory:
        os.chmod(directory, 0o700)
        os.environ[run_directory.RUN_DIR_VARIABLE] = directory
        only = sys.argv[1] if len(sys.argv) > 1 else None
        if only in (None, "flink"):
            asyncio.run(take_flink())
        if only in (None, "attached"):
            asyncio.run(take_attached(Path(directory, "checkpoint")))
        if only is not None:
            return
        recording = Path(directory, "flights.rec")
        arguments = ["demo", "--idle-after", "off", "--record", str(recording)]
        engine = EngineProcess(arguments, run_directory.claim(NAME, "flights", 0), tied=True)
        try:
            asyncio.run(take_live(Watched(run_directory.socket_path(NAME), alive=engine.died)))
        finally:
            engine.stop()
        asyncio.run(take_replay(recording))


if __name__ == "__main__":
    main()
