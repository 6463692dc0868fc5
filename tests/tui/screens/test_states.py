"""Every state is designed: starting, empty, never seen, stale, paused, partial, ended, failed, lost."""

from datetime import UTC

import pytest
from wmtop.engine.snapshot import Snapshot, Step
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.screens.start import QuitScreen, StartScreen
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.spans import lay
from wmtop.tui.words.texts import ALL_CLOSED, ALL_IDLE, CONNECTING, NO_CHANNEL, NO_OPEN_WINDOW

from tests.snapshots import replace

from .. import canned
from ..canned import live, reported, starting
from ..drive import Driven, drive


def line(snapshot: Snapshot) -> str:
    """The watermark's line, as it is where there is room."""
    return "".join(text for text, _ in lay(presenter_of(snapshot).watermark(UTC), 120)).strip()


def test_the_first_paint_needs_no_engine() -> None:
    async def scenario(it: Driven) -> None:
        assert isinstance(it.app.screen, StartScreen)
        await it.says(CONNECTING)

    drive(scenario)


def test_the_steps_of_the_start_are_ticked_off_and_then_the_screen_opens() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("✓ Java 17 found")
        it.clock.now += 4.2
        await it.until(lambda: "4.2 s" in it.said())
        await it.says("· first batch")
        await it.says("/run/engine.log")
        steps = [Step(step.name, step.seconds or 4.5) for step in starting().steps[:3]]
        await it.push(replace(starting(), steps=[*steps, Step("first batch")]))
        await it.says("✓ starting Spark")
        await it.push(live())
        await it.until(lambda: isinstance(it.app.screen, MainScreen))
        await it.says("● LIVE", "#status")

    drive(scenario, canned.header(), starting())


def test_the_start_needs_no_room() -> None:
    async def scenario(it: Driven) -> None:
        for width, height in ((1, 1), (12, 4), (200, 60)):
            await it.pilot.resize_terminal(width, height)
        await it.says("starting Spark")

    drive(scenario, starting())


def test_help_over_the_start_does_not_keep_the_screen_from_opening() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("question_mark")
        await it.push(live())
        await it.press("escape")
        await it.until(lambda: isinstance(it.app.screen, MainScreen))

    drive(scenario, starting())


def test_a_start_that_fails_says_why_and_names_the_log() -> None:
    async def scenario(it: Driven) -> None:
        await it.push(replace(starting(), state="failed", error="no Java found: apt-get install x\ntrace"))
        await it.says("● FAILED")
        await it.says("no Java found: apt-get install x")
        await it.says("✗ starting Spark")
        assert "trace" not in it.said()
        await it.says("/run/engine.log")

    drive(scenario, starting())


def test_an_engine_that_dies_while_it_starts_says_so() -> None:
    async def scenario(it: Driven) -> None:
        it.client.end("the engine died with exit code 1; its log is /tmp/x.log")
        await it.until(lambda: "FAILED" in it.said())
        await it.says("the engine died with exit code 1; its log is /tmp/x.log")

    drive(scenario)


def test_without_data_it_says_what_it_waits_for() -> None:
    async def scenario(it: Driven) -> None:
        await it.says(line(canned.empty()), "#level")
        await it.says("flights-2013.parquet", "Barrel")
        await it.says(NO_CHANNEL, "#channels")
        await it.says(NO_OPEN_WINDOW, "#windows")
        await it.says("late – (0)", "#tuning")
        await it.press("right", "down", "s", "x", "enter", "plus")
        await it.push(live())
        await it.says(presenter_of(live()).cause(), "#level")

    drive(scenario, canned.empty())


def test_a_channel_that_was_never_seen_visibly_holds_the_watermark() -> None:
    async def scenario(it: Driven) -> None:
        await it.says(line(canned.never_seen()), "#level")
        await it.says(presenter_of(canned.never_seen()).cause(), "#level")
        await it.says("?", "Barrel")
        await it.says("HOLDS 26m", "#channels")
        await it.says("none yet", "#channels")
        assert "-9223372036854775808" not in it.said()

    drive(scenario, canned.never_seen())


def test_when_all_are_idle_it_says_that_the_watermark_is_frozen() -> None:
    async def scenario(it: Driven) -> None:
        await it.says(ALL_IDLE, "#level")
        assert "▓" not in it.said("Barrel")

    drive(scenario, canned.stalled())


def test_missing_snapshots_are_reported_until_the_next_one() -> None:
    async def scenario(it: Driven) -> None:
        it.clock.now += 12.4
        await it.until(lambda: "● STALE 12s" in it.said("#status"))
        await it.push(live())
        await it.says("● LIVE", "#status")

    drive(scenario, live())


@pytest.mark.parametrize(("state", "word"), [("paused", "PAUSED"), ("partial", "PARTIAL"), ("stale", "STALE")])
def test_the_engines_own_states_have_their_words(state: str, word: str) -> None:
    async def scenario(it: Driven) -> None:
        await it.says(f"● {word}", "#status")

    drive(scenario, live(state=state))


def test_paused_is_not_stale() -> None:
    async def scenario(it: Driven) -> None:
        it.clock.now += 60
        await it.pilot.pause(1.2)
        await it.says("● PAUSED", "#status")

    drive(scenario, live(state="paused"))


def test_the_end_is_named_and_never_a_number() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("● ENDED", "#status")
        await it.says(line(canned.ended()), "#level")
        await it.says(ALL_CLOSED, "#windows")
        assert "9223372036854775807" not in it.said()
        it.client.end()
        await it.pilot.pause(1.2)
        await it.says("● ENDED", "#status")

    drive(scenario, canned.ended())


def test_a_failure_shows_the_first_line_of_the_error_and_the_log() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("● FAILED", "#status")
        await it.says("the JVM went away (exit 137): out of memory?", "#banner")
        await it.says("log /home/me/.cache/wmtop/flights/engine.log", "#log")
        assert "Frames" not in it.said()
        await it.says("13:47 ≈", "Barrel")

    drive(scenario, *reported(canned.failed()))


def test_a_stream_that_breaks_off_leaves_the_last_picture() -> None:
    async def scenario(it: Driven) -> None:
        it.client.end("engine 'flights' died: its log is x.log")
        await it.until(lambda: "● FAILED" in it.said("#status"))
        await it.says("engine 'flights' died: its log is x.log", "#banner")
        await it.says(presenter_of(live()).cause(), "#level")

    drive(scenario, *reported(live()))


# Quitting


def test_a_viewer_just_leaves() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("q")

    assert drive(scenario, live()).return_value == "leave"


def test_the_demo_stops_its_engine() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("ctrl+c")
        assert it.client.sent == [canned.STOP]

    assert drive(scenario, live(), on_quit="stop").return_value == "stop"


@pytest.mark.parametrize(("key", "answer"), [("s", "stop"), ("l", "leave")])
def test_an_engine_started_here_is_asked_about(key: str, answer: str) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("q")
        assert isinstance(it.app.screen, QuitScreen)
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)
        await it.press("q", key)
        assert it.client.sent == ([canned.STOP] if key == "s" else [])

    assert drive(scenario, *reported(live()), on_quit="ask").return_value == answer


def test_there_is_nothing_to_ask_about_an_engine_that_is_gone() -> None:
    async def scenario(it: Driven) -> None:
        it.client.end()
        await it.until(lambda: "STOPPED" in it.said("#status"))
        await it.press("q")

    assert drive(scenario, *reported(live()), on_quit="ask").return_value == "leave"
