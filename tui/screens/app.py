"""The app of one target: its stream, its screens, and the notices of its alerts."""

import asyncio
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from importlib import import_module
from os import environ
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec
from textual.app import App, SuspendNotSupported, SystemCommand
from textual.driver import Driver
from textual.message import Message
from textual.screen import Screen

from ...engine.feed.messages import Change, FromEngine, Header, Reply, Stop, ToEngine
from ...engine.snapshot import Snapshot, VerdictName
from ...engine.system.errors import RunError, UsageError
from ...engine.text.formatting import clean, first_line
from ...engine.verdict.alerts import LOST_AFTER_MS, VerdictChanged
from ..words.history import Severity, alert_severity, alert_text, alert_title
from ..words.keys import chosen_keys
from ..words.recent import Recent
from ..words.spans import Top
from ..words.state import Lost
from ..words.texts import ALERTS, ENGINE_GONE, Appearance, not_applied, recording_to, refused
from ..words.user_commands import facts_of, user_commands
from .base_app import BaseApp, PromptScreen, TooSmallScreen
from .incident_report import Incident, LastMinutes, Recorder, write_new
from .start import Answer, QuitScreen, StartScreen

if TYPE_CHECKING:  # the start screen is painted before the others are imported
    from .main import MainScreen

_SECONDS = 15
_LONGEST = 200
_KNOWS_BOTH = ("WezTerm", "ghostty")
"""Terminals that know both sequences and would show the notification twice."""


def alert(app: App[Any], title: str, text: str, severity: Severity, ways: Collection[str]) -> None:
    """Report an alert in these ways (`texts.ALERTS`): a notice, the bell, a notification of the desktop."""
    if "toast" in ways:
        app.notify(text, severity=severity, markup=False, timeout=_SECONDS)
    if app.is_headless or app.is_web:
        return
    if "bell" in ways:
        app.bell()
    driver = app._driver  # pyright: ignore[reportPrivateUsage]
    if "desktop" in ways and driver is not None:
        driver.write(notification(title, text))
        driver.flush()


def notification(title: str, text: str, variables: Mapping[str, str] = environ) -> str:
    """The escape sequences OSC 9 and OSC 777 of a notification, wrapped for tmux if it runs in between."""
    # Without characters that would end the sequence or its field.
    title, text = (clean(part).replace(";", ",")[:_LONGEST] for part in (title, text))
    sequences = [f"\x1b]777;notify;{title};{text}\x1b\\"]
    if variables.get("TERM_PROGRAM") not in _KNOWS_BOTH:
        sequences.insert(0, f"\x1b]9;{title}: {text}\x1b\\")
    if variables.get("TMUX"):  # which passes them on if `allow-passthrough` is on, and drops them otherwise
        sequences = ["\x1bPtmux;" + sequence.replace("\x1b", "\x1b\x1b") + "\x1b\\" for sequence in sequences]
    return "".join(sequences)


def use_appearance(app: BaseApp[Any], appearance: Appearance) -> None:
    """Give the app the configured theme, keys and programs on keys, before it runs."""
    if appearance.theme is not None:
        app.theme = f"wmtop-{appearance.theme}"
    app.set_keymap(chosen_keys())
    for name, command in user_commands().items():
        app.bind(command.key, f"user_command('{name}')", description=command.about or name)


def run_user_command(app: BaseApp[Any], target: str, name: str) -> None:
    """Run a program of the configuration on the selected row; the terminal is the program's until it ends."""
    screen = app.screen
    if not isinstance(screen, PromptScreen):
        return
    table = screen.records()
    facts = facts_of(target, screen.chosen(), () if table is None else table.rows)
    variables = {f"WMTOP_ROW_{fact.upper()}": value for fact, value in facts.items()}
    own_handler = signal.signal(signal.SIGINT, lambda _number, _frame: None)  # ctrl+c ends the program alone
    try:
        arguments = user_commands()[name].arguments(facts)
        with app.suspend():
            code = subprocess.run(arguments, env={**environ, **variables}, check=False).returncode
            input(f"wmtop: {name}: exit code {code}; Enter returns ")
    except (OSError, ValueError, EOFError, SuspendNotSupported) as error:
        app.notify(f"{name}: {first_line(str(error))}", severity="error", markup=False, timeout=8)
    finally:
        signal.signal(signal.SIGINT, own_handler)


class SnapshotClient(Protocol):
    """One connection to an engine."""

    def messages(self) -> AsyncIterator[FromEngine]:
        """A header, then snapshots and replies; ends when the engine goes away, may raise `RunError`."""
        ...

    async def send(self, command: ToEngine) -> None:
        """Send a command; its answer comes as a `Reply` with the same id."""
        ...

    async def close(self) -> None:
        """Close the connection; the engine continues."""
        ...


class FromFeed(Message):
    """The engine sent something; of snapshots that wait in the queue only the newest counts."""

    def __init__(self, content: FromEngine) -> None:
        self.content = content
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        snapshots = isinstance(message, FromFeed) and isinstance(message.content, Snapshot)
        return snapshots and isinstance(self.content, Snapshot)


OnQuit = Literal["ask", "stop", "leave"]
_LOADED_AFTER_S = 0.3
"""When the main screen is imported at the latest: the start screen is painted by then, and there is no data yet."""
_STOP_S = 2.0
"""Longest wait (s) at quitting for an engine that does not respond to the stop."""


class WmtopApp(BaseApp[Answer]):
    """Shows the engine that `feed` is connected to; `run` returns whether the user stopped it or left it running.

    `on_quit` says what quitting does: `ask` (an engine that this terminal started), `stop` (the demo), `leave` (a
    viewer). `clock` gives monotonic seconds. `denied` names the actions that this screen does not have (`denied_to`).
    `preferences_file` is where the theme is remembered; None: it is not. `alerts` are the ways in which an alert is
    reported.
    """

    COMMANDS = {  # noqa: RUF012
        lambda: import_module(".help", __package__).Commands,
        lambda: import_module(".help", __package__).ChannelCommands,
    }

    def __init__(
        self,
        feed: SnapshotClient,
        *,
        on_quit: OnQuit,
        clock: Callable[[], float] = time.monotonic,
        denied: frozenset[str] = frozenset(),
        preferences_file: Path | None = None,
        alerts: Collection[str] = ALERTS,
    ) -> None:
        super().__init__(preferences_file)
        self._feed = feed
        self._on_quit = on_quit
        self._clock = clock
        self._denied = denied
        self._alert_ways = alerts
        self._heard_s = clock()
        self._header: Header | None = None
        self._recorder = Recorder()
        self._recent = Recent()
        self._minutes = LastMinutes()
        self._snapshot: Snapshot | None = None
        self._lost: Lost | None = None
        self._alerted: VerdictName | None = None
        self._commands: dict[int, str] = {}
        self._start = StartScreen(clock)
        self._main: MainScreen | None = None
        self._first_zone: tzinfo | None = UTC
        self.of_fleet = False
        """Whether Esc on the main screen returns to the fleet: `run` then returns "fleet"."""

    def apply_appearance(self, appearance: Appearance) -> None:
        use_appearance(self, appearance)
        self._first_zone = None if appearance.zone == "local" else UTC
        if self._main is not None:
            self._main.shown.look(zone=self._first_zone)

    def leave_target(self) -> None:
        if self.of_fleet:
            self.exit("fleet")

    def get_default_screen(self) -> Screen[Any]:
        return self._start

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        from .help import target_commands
        from .target_screen import TargetScreen

        yield from target_commands(self, screen if isinstance(screen, TargetScreen) else None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return False if action in self._denied else super().check_action(action, parameters)

    @property
    def most_important(self) -> Top | None:
        return None if self._main is None else self._main.shown.top

    def on_mount(self) -> None:
        self.set_interval(1.0, self._fit)
        self.run_worker(self._follow(), name="feed")
        self.set_timer(_LOADED_AFTER_S, lambda: import_module(".main", __package__))
        self.set_interval(1.0, self._look_for_silence)

    async def on_unmount(self) -> None:
        await self._feed.close()
        if self._recorder.path is not None:
            with suppress(RunError):  # a full disk: what was written before is there
                await asyncio.to_thread(self._recorder.take())
        self._minutes.close()

    async def _follow(self) -> None:
        """Pass on the engine's messages until it goes away."""
        reason: str | None = None
        try:
            async for message in self._feed.messages():
                if isinstance(message, Snapshot):
                    self._record(message)
                self.post_message(FromFeed(message))
        except RunError as error:
            reason = first_line(str(error))
        except (OSError, EOFError, msgspec.MsgspecError) as error:
            reason = f"The stream cannot be read: {first_line(str(error))}"
        self.call_later(self._end, reason)

    def on_from_feed(self, event: FromFeed) -> None:
        content = event.content
        if isinstance(content, Snapshot):
            self._take(content)
        elif isinstance(content, Header):
            self._header = content
            self._engine_name = content.name
            self._recent = self._recent_of(content)
        else:
            self._show_reply(content)

    def _take(self, snapshot: Snapshot) -> None:
        """Show a snapshot, and report its alerts."""
        first, self._snapshot = self._snapshot is None, snapshot
        self._engine_name = snapshot.name
        self._recent.add(snapshot)
        self._minutes.add(snapshot)
        self._heard_s = self._clock()
        if first:
            self._recent.log.take_alerts()  # older than this screen, which shows them
        self._alert()
        self._route()

    def _recent_of(self, header: Header) -> Recent:
        """The history in a header."""
        return Recent(header.history, header.points)

    def _alert(self) -> None:
        """Report new alerts; a notice of a verdict goes with its verdict."""
        if self._snapshot is not None and self._alerted not in (None, self._snapshot.verdict.verdict):
            self._alerted = None
            self.clear_notifications()
        for event in self._recent.log.take_alerts():
            self._alerted = event.verdict if isinstance(event, VerdictChanged) else self._alerted
            severity = alert_severity(event)
            text = alert_text(event, self._snapshot, self._recent.log.events())
            alert(self, alert_title(self._engine_name), text, severity, self._alert_ways)

    def on_driver_signal_resume(self, event: Driver.SignalResume) -> None:
        """After a suspension: this process did not read, the engine may have sent."""
        self._heard_s = self._clock()

    def _look_for_silence(self) -> None:
        """Check for missing snapshots: an engine that sends none is lost, too."""
        snapshot, silent_ms = self._snapshot, round(1_000 * (self._clock() - self._heard_s))
        if snapshot is None or snapshot.wall_ms is None or snapshot.ended or snapshot.state in ("ended", "starting"):
            return
        if self._lost is not None and self._lost.reason is not None:
            self._recent.log.lose(snapshot.wall_ms + silent_ms, self._lost.reason)
        elif self._lost is None and silent_ms >= LOST_AFTER_MS:
            self._recent.log.lose(snapshot.wall_ms + silent_ms, silent_ms=silent_ms)
        self._alert()

    def _end(self, reason: str | None) -> None:
        """The stream has ended; `reason` is one line, or None if there is no reason."""
        self._lost = Lost(reason)
        self._start.lose(self._lost)
        self._look_for_silence()
        if self._main is not None:
            self._main.lose(self._lost)

    def on_start_screen_uncovered(self, event: StartScreen.Uncovered) -> None:
        self._route()

    def _route(self) -> None:
        """Pass the newest snapshot to the screen that shows it."""
        snapshot = self._snapshot
        if snapshot is None:
            return
        if self._main is not None:
            self._main.take(snapshot, self._recent)
            return
        starting = snapshot.state == "starting" or (snapshot.state == "failed" and snapshot.batch is None)
        covered = isinstance(self.screen, TooSmallScreen)
        if starting or not (covered or self.screen is self._start):
            self._start.take(snapshot)
            return
        if covered:
            self.pop_screen()
        from .main import MainScreen

        self._main = MainScreen(snapshot, self._recent, self._clock, denied=self._denied)
        self._main.shown.look(zone=self._first_zone)
        self._start.done()
        self._show_recording()
        self.push_screen(self._main)
        if self._lost is not None:
            self._main.lose(self._lost)
        self._fit()

    async def send_change(self, change: Change, words: str) -> None:
        self._commands[len(self._commands) + 1] = words
        change = msgspec.structs.replace(change, id=len(self._commands))
        if (why := await self._send(change)) is not None:
            self.notify(not_applied(words, why), severity="error", markup=False)

    def _show_reply(self, reply: Reply) -> None:
        words, text = self._commands.get(reply.id, "the command"), clean(reply.text)
        if reply.ok:
            self.notify(text or f"{words} applied", markup=False, timeout=4)
        else:
            self.notify(refused(words, text), severity="error", markup=False, timeout=8)

    async def _send(self, command: Change | Stop) -> str | None:
        """Send a command; returns why it could not be sent, or None."""
        if self._lost is not None:
            return ENGINE_GONE
        try:
            await self._feed.send(command)
        except RunError as error:
            return first_line(str(error))
        except OSError:
            return ENGINE_GONE
        return None

    def action_show_help(self) -> None:
        """Open the help for the present screen."""
        from .help import HelpScreen
        from .target_screen import DetailScreen

        screen = self.screen
        if isinstance(screen, HelpScreen | QuitScreen):
            return
        denied = self._main.denied if self._main is not None else self._denied
        name, reading = (screen.NAME, screen.READING) if isinstance(screen, DetailScreen) else ("", "")
        self.push_screen(HelpScreen(name, reading, replay=self.REPLAYS, denied=denied))

    async def action_export_incident(self) -> None:
        """Write the present state, and the minutes before it, to a zip in wmtop's start directory."""
        incident = await self._incident()
        if incident is None:
            return
        self.notify("writing an incident report …", timeout=3)
        try:
            path = await asyncio.to_thread(write_new, incident, Path.cwd(), datetime.now())
        except (UsageError, RunError, OSError) as error:
            self.notify(f"no report was written: {error}", severity="error", markup=False, timeout=8)
        else:
            self.notify(f"wrote {path}", markup=False, timeout=8)

    async def _incident(self) -> Incident | None:
        """The incident at the shown snapshot; None before there is one."""
        if self._header is None or self._main is None:
            return None
        shown = self._main.shown.snapshot
        return Incident(
            header=self._header,
            snapshots=await asyncio.to_thread(self._minutes.until, shown),
            points=list(self._recent.until(shown)),
            lost=None if self._lost is None else self._lost.text,
        )

    def action_user_command(self, name: str) -> None:
        """Run a program of the configuration on the selected row."""
        run_user_command(self, self._engine_name, name)
        self._heard_s = self._clock()  # nothing was read meanwhile

    async def action_record(self) -> None:
        """Start a recording in wmtop's start directory, and name its file; again: stop it."""
        if self._header is None or self._snapshot is None:
            return
        if self._recorder.path is not None:
            await self._stop_recording()
            return
        try:
            path = self._recorder.start(self._header, self._snapshot, Path.cwd(), datetime.now())
            self.notify(recording_to(path), markup=False, timeout=8)
        except (UsageError, RunError, OSError) as error:  # the last: the directory itself is gone
            self.notify(f"not recorded: {error}", severity="error", markup=False, timeout=8)
        self._show_recording()

    async def _stop_recording(self) -> None:
        """End the recording; a thread writes what waits for the disk, and the screen does not wait."""
        finish = self._recorder.take()
        self._show_recording()
        try:
            done = await asyncio.to_thread(finish)
        except RunError as error:
            self.notify(str(error), severity="error", markup=False, timeout=8)
        else:
            self.notify(done, markup=False, timeout=8)

    def _record(self, snapshot: Snapshot) -> None:
        """Add a snapshot to the recording, if there is one; a full disk ends only the recording."""
        try:
            self._recorder.add(snapshot)
        except RunError as error:
            self.notify(str(error), severity="error", markup=False, timeout=8)
            self._show_recording()

    def _show_recording(self) -> None:
        if self._main is not None:
            self._main.record(self._recorder.path is not None)

    async def action_leave(self) -> None:
        """Quit, as `on_quit` says; with nothing left to stop, just quit; again: leave the engine running."""
        if isinstance(self.screen, QuitScreen):
            self.screen.action_answer("leave")
        elif self._on_quit == "ask" and self._lost is None:
            self.push_screen(QuitScreen(clean(self._engine_name) or "engine"), self._go)
        else:
            await self._go("stop" if self._on_quit == "stop" else "leave")

    async def _go(self, answer: Answer | None) -> None:
        if answer == "stop":
            with suppress(TimeoutError):
                await asyncio.wait_for(self._send(Stop(id=0)), _STOP_S)
        if answer is not None:
            self.exit(answer)
