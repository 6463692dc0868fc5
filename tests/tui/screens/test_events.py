"""The events screen, and how alerts reach people."""

import re
from pathlib import Path

import pytest
from wmtop.engine.snapshot import Holder, Note, Reason, SettingsChange, Snapshot, Totals, Verdict, VerdictName
from wmtop.engine.text.formatting import label
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.tui.screens.app import alert, notification
from wmtop.tui.screens.channels import ChannelScreen
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.widgets.rows import Sheet
from wmtop.tui.words.history import EventLog, change_words
from wmtop.tui.words.texts import MOMENT_SHOWN

from tests.snapshots import replace

from ..canned import HOSTILE, MINUTE, NOW, WALL, failed, header, live
from ..drive import Driven, drive
from ..recorded import record, replay


def judged(second: int, name: VerdictName, holder: str = "F9", **more: object) -> Snapshot:
    """A snapshot so many seconds (of a replay: minutes) after the first, with a verdict."""
    snapshot = live(now_ms=NOW + second * MINUTE, wall_ms=WALL + second * 1_000, **more)
    level = replace(snapshot.level, holder=Holder(holder, NOW, "quiet"))
    return replace(
        snapshot, level=level, verdict=Verdict(name, NOW, patience_ms=8 * MINUTE, speed=1.0, reason=Reason("advancing"))
    )


def timeline() -> list[Snapshot]:
    """F9 holds, the watermark stalls; UA takes over, it moves again; a setting is changed on the way."""
    change = SettingsChange(2, 5, WALL + 50_000, "screen", lateness_ms=45 * MINUTE, now_ms=NOW + 50 * MINUTE)
    note = Note(WALL + 70_000, "topic_gone", {"topic": "orders"})
    out = [judged(n, "moving") for n in range(20)]
    out += [judged(n, "stalled") for n in range(20, 60)]
    out += [judged(n, "stalled", changes=[change]) for n in range(60, 80)]
    return out + [judged(n, "moving", "UA", changes=[change], notes=[note]) for n in range(80, 220)]


async def come(it: Driven, snapshots: list[Snapshot]) -> None:
    """Let them come one by one: one that still waits is superseded by the next."""
    for snapshot in snapshots:
        it.client.push(snapshot)
        await it.until(lambda: it.client.drained() and it.app._snapshot is snapshot)  # noqa: B023


def test_events_are_listed_newest_first() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("e")
        await come(it, timeline()[::10])
        await it.says("STALLED", "#events")
        rows = [line for line in it.said("#events").splitlines()[1:] if line.strip()]
        assert [re.search(r"(MOVING|STALLED|UA|lateness|source)", row)[0] for row in rows] == [  # type: ignore[index]
            "MOVING", "MOVING", "UA", "source", "lateness", "STALLED",
        ]  # fmt: skip
        assert "▲" in rows[0]  # two minutes after the first
        assert "▲" in rows[-1]
        assert "▲" not in rows[1]
        await it.press("down", "down", "enter")
        assert isinstance(it.app.screen, ChannelScreen)

    drive(scenario, header(), judged(0, "moving"))


def test_events_filter_leaves_matching_rows() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("e")
        await come(it, timeline()[::10])
        await it.press("slash", *"orders")
        await it.says("1 of 6", "#top")
        await it.press("enter")
        assert "MOVING" not in it.said("#events")
        await it.press("escape")
        await it.says("UA", "#events")
        await it.press("slash", "left_parenthesis")
        assert "regular expression" in str(it.app.screen.query_one("#prompt-note").render())
        await it.press("escape", "escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, header(), judged(0, "moving"))


def test_events_enter_in_a_replay_jumps_to_the_moment(tmp_path: Path) -> None:
    path = record(tmp_path / "a.rec", *timeline())

    async def scenario(it: Driven) -> None:
        await it.press("e")
        await it.says("STALLED", "#events")
        assert it.said("#events").count(MOMENT_SHOWN) == 0  # it is before all of them
        await it.press("end", "enter")
        assert isinstance(it.app.screen, MainScreen)
        await it.says("21 of 220", "Timeline")
        await it.press("e")
        await it.says(MOMENT_SHOWN, "#events")
        assert it.toasts() == []

    replay(scenario, path)


def test_alert_and_recovery_are_notices() -> None:
    async def scenario(it: Driven) -> None:
        snapshots = timeline()[::10]
        last = max(place for place, one in enumerate(snapshots) if one.verdict.verdict == "stalled")
        await come(it, snapshots[: last + 1])
        [stalled] = it.toasts()
        assert stalled.startswith("The watermark is stalled: F9")
        await come(it, snapshots[last + 1 :])
        [moves] = it.toasts()  # the other one is over
        assert re.fullmatch(r"The watermark moves again after \d+[smh].*", moves)

    drive(scenario, header(), judged(0, "moving"))


def test_alert_older_than_the_screen_is_not_shown() -> None:
    async def scenario(it: Driven) -> None:
        assert it.toasts() == []
        await it.push(judged(1, "stalled"))
        assert it.toasts() == []

    drive(scenario, header(), judged(0, "stalled"))


def test_alert_lost_engine_is_shown_once() -> None:
    async def scenario(it: Driven) -> None:
        it.client.end("the engine was killed")
        await it.until(lambda: bool(it.toasts()))
        await it.pilot.pause(1.2)
        assert len(it.toasts()) == 1
        assert "killed" in it.toasts()[0]
        await it.press("e")
        await it.says("failed  the engine was killed", "#events")

    drive(scenario, header(), judged(0, "moving"))


def test_alert_ended_engine_is_not_shown() -> None:
    async def scenario(it: Driven) -> None:
        it.client.end()
        await it.says("STOPPED", "#status")
        assert it.toasts() == []

    drive(scenario, header(), judged(0, "moving"))


def test_alert_silent_engine_counts_as_lost() -> None:
    async def scenario(it: Driven) -> None:
        it.clock.now += 20
        await it.until(lambda: bool(it.toasts()))
        assert len(it.toasts()) == 1

    drive(scenario, header(), judged(0, "moving"))


def test_alert_failed_run_is_shown() -> None:
    async def scenario(it: Driven) -> None:
        await it.push(failed())
        assert len(it.toasts()) == 1
        assert "JVM" in it.toasts()[0]

    drive(scenario, header(), judged(0, "moving"))


def test_alert_late_burst_is_shown() -> None:
    async def scenario(it: Driven) -> None:
        def counted(second: int, records: int, late: int) -> Snapshot:
            return judged(second, "moving", totals=Totals(records=records, late=late))

        await come(it, [counted(10 * n, 10_000 + 100 * n, 10) for n in range(8)])
        await come(it, [counted(80 + 10 * n, 10_800 + 100 * n, 10 + 50 * n) for n in range(5)])
        assert len(it.toasts()) == 1

    drive(scenario, header(), judged(0, "moving", totals=Totals(records=10_000, late=10)))


def test_events_setting_change_names_value_and_author() -> None:
    change = SettingsChange(3, 5, WALL, "someone", 45 * MINUTE, None, now_ms=NOW + 5 * MINUTE)

    async def scenario(it: Driven) -> None:
        await it.press("e")
        await it.push(judged(9, "moving", changes=[change]))
        await it.says(f"{change_words(change)} by someone", "#events")

    drive(scenario, header(), judged(0, "moving"))


@pytest.mark.parametrize("text", [*HOSTILE, "a;b", "\x07\x1b\\ \x9c"])
def test_notification_name_cannot_end_the_sequence(text: str) -> None:
    sent = notification(label(text), text, {})
    assert re.fullmatch(
        r"\x1b\]9;[^\x00-\x1f\x7f-\x9f;]*\x1b\\\x1b\]777;notify;[^\x00-\x1f\x7f-\x9f;]*;[^\x00-\x1f\x7f-\x9f;]*\x1b\\",
        sent,
    )


def test_notification_in_tmux_is_wrapped() -> None:
    wrapped = notification("wmtop a", "b", {"TMUX": "x"})
    assert wrapped.count("\x1bPtmux;\x1b\x1b]") == 2
    assert notification("wmtop a", "b", {"TERM_PROGRAM": "WezTerm"}).count("\x1b]") == 1


def test_alert_ways_can_be_switched_off() -> None:
    for ways, toasts in ((("toast",), 1), (("bell", "desktop"), 0), ((), 0)):

        async def scenario(it: Driven, ways: tuple[str, ...] = ways, toasts: int = toasts) -> None:
            alert(it.app, "wmtop flights", "STALLED", "error", ways)
            await it.pilot.pause()
            assert len(it.toasts()) == toasts

        drive(scenario, header(), judged(0, "moving"))


def test_events_click_on_a_title_sorts_then_reverses() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("e")
        await come(it, timeline()[::10])
        await it.says("STALLED", "#events")
        sheet, titles = it.app.screen.query_one("#events", Sheet), it.said("#events").splitlines()[0]

        def events() -> list[str]:
            return [line for line in it.said("#events").splitlines()[1:] if line.strip()]

        def oldest_first() -> bool:
            return "STALLED" in events()[0] and "MOVING" in events()[-1]

        await it.pilot.click(sheet, offset=(titles.index("time") + 1, 0))
        await it.until(oldest_first)
        before = events()
        await it.pilot.click(sheet, offset=(titles.index("time") + 1, 0))
        await it.until(lambda: (events()[0], events()[-1]) == (before[-1], before[0]))

    drive(scenario, header(), judged(0, "moving"))


def test_events_two_moments_of_a_snapshot_are_in_order() -> None:
    log = EventLog()
    for second, holder, verdict in ((0, "a", "stalled"), (9, "a", "stalled"), (21, "b", "moving")):
        at = NOW + second * 1_000
        log.see(HistoryPoint(at, at, 5, holder, 9, 0, at, held_since_ms=min(at, NOW + 10_000), verdict=verdict))
    times = [(event.now_ms or 0) - NOW for event in log.events()]
    assert times[-2:] == [10_000, 21_000]  # b took over before the verdict changed
