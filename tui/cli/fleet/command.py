"""`wmtop` without a command: the fleet on the screen, or as lines of JSON."""

from typing import TYPE_CHECKING

from msgspec.structs import replace

from ....engine.feed.recording_reader import RecordingReader
from ....engine.system.errors import UsageError
from ....engine.targets.address import local_path
from ....engine.targets.fleet import TargetWatch, Watcher
from ....engine.targets.own import is_recording, running_engine
from ...words.keys import use_keys
from ..config.force import appearance, config
from ..running import has_terminal, open_screen
from .feed import WatchedFeed
from .members import members
from .observe import FleetRows, print_lines, watching

if TYPE_CHECKING:
    from ..running import Feed

HOW_TO_START = (
    "nothing to watch: no engine is running, no target is configured, no query is published\n"
    "  wmtop demo                      real flights, replayed through Spark\n"
    "  wmtop run replay FILE --time COL   your data\n"
    "  wmtop attach                    lists the queries that can be watched\n"
    "  wmtop config                    where to name targets"
)
FIRST_LOOK_S = 5.0


def print_fleet(*, once: bool) -> None:
    """A line of JSON a refresh; with `once` one line when every target was seen, or after a few seconds."""
    with watching(members) as watcher:
        print_lines(watcher, FIRST_LOOK_S if once else None)


def open_fleet() -> None:
    """Open the fleet's screen; with exactly one target, that target; with none, print how to start."""
    found = members()
    if not found:
        print(HOW_TO_START)
        return
    if not has_terminal():
        raise UsageError("the screen needs a terminal; without one, use wmtop --json or wmtop check --all")
    with watching(members) as watcher:
        _between(watcher, found[0].name if len(found) == 1 else None)


def _between(watcher: Watcher, opened: str | None) -> None:
    """Switch between the table and its targets until the user quits; `opened` is shown first. Watching never stops."""
    from ...screens.fleet import FleetApp
    from ...screens.preferences import preferences_file

    use_keys(config().keys)
    rows, selected = FleetRows(watcher), opened
    while True:
        if opened is None:
            app = FleetApp(rows.rows, appearance(), selected, preferences_file=preferences_file())
            opened = app.run()
        watch = None if opened is None else watcher.watch(opened)
        if watch is None or not _show(watch):
            return
        selected, opened = opened, None


def _show(watch: TargetWatch) -> bool:
    """Show the screen of a target; returns whether the user goes back to the fleet."""
    target = next((member.target for member in members() if member.name == watch.status.name), None)
    if target is not None and is_recording(target):
        from ..replay import play

        with RecordingReader(local_path(target)) as reader:
            return play(reader, 1.0, None, playing=True, of_fleet=True) == "fleet"
    return open_screen(feed_of(watch, target), "leave", of_fleet=True) == "fleet"


def feed_of(watch: TargetWatch, target: str | None) -> "Feed":
    """The feed for a target's screen; for an engine, a connection to exactly the run of the shown row."""
    engine = None if target is None else running_engine(target)
    if engine is None:
        return WatchedFeed(watch)
    if watch.header is not None and watch.header.id:
        watch.retry_now()  # if another run has the name now, show it
        engine = replace(engine, run_id=watch.header.id)
    return engine.client(read_only=False)
