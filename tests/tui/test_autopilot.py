"""The autopilot on the screen: its state, its last change, and the key that switches it."""

from msgspec.structs import replace
from wmtop.engine.core.settings import AutoLateness, Settings
from wmtop.engine.core.snapshot import AutoView, SettingsChange, Snapshot
from wmtop.engine.feed.messages import Change
from wmtop.tui.permissions import CHANGES_ENGINE, READ_ONLY
from wmtop.tui.present.autopilot import auto_refusal, next_target
from wmtop.tui.present.screen_words import BY_HAND, SETTINGS_CHANGED

from . import attached
from .canned import HOUR, MINUTE, NOW, SETTINGS, WALL, live, recent, told
from .drive import Driven, drive

ON = replace(SETTINGS, auto=AutoLateness(target=0.99))
BY_AUTO = SettingsChange(2, 7, None, "auto", lateness_ms=45 * MINUTE, share=0.0008, now_ms=NOW - 12 * MINUTE)


def steered(suspended_until_ms: int | None = None, **more: object) -> Snapshot:
    auto = AutoView(0.99, HOUR, NOW + 50_000, suspended_until_ms)
    return live(settings=ON, auto=auto, changes=[BY_AUTO], whatif_recent=recent(), **more)


def test_the_main_screen_and_the_lateness_screen_say_what_it_does() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("lateness 30m auto 99 %", "#tuning")
        await it.press("l")
        await it.shows("#auto", "99 %", "1h", "50s")
        await it.shows("#auto", "12m", "45m", "0.08 %")
        await it.push(steered(NOW + 20 * MINUTE))
        await it.shows("#auto", "14:52:10", BY_HAND)
        await it.says("auto 99 % suspended", "#tuning")

    drive(scenario, *told(steered()))


def test_too_few_records_are_said() -> None:
    few = [replace(part, records=512) for part in recent()]

    async def scenario(it: Driven) -> None:
        await it.press("l")
        await it.says("waits: 512 of 1,000 records", "#auto")

    drive(scenario, *told(replace(steered(), whatif_recent=few)))


def test_the_key_switches_it_on_and_off() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("A")
        assert it.client.sent == [Change(id=1, auto_lateness=0.999, who="screen")]
        await it.push(steered())
        await it.press("l", "A")
        assert it.client.sent[1:] == [Change(id=2, auto_lateness=None, who="screen")]

    drive(scenario, *told(live()))


def test_it_comes_back_with_the_share_of_before() -> None:
    had = SettingsChange(2, 7, WALL, "someone", auto_lateness=0.95)
    off = SettingsChange(3, 8, WALL, "screen", auto_lateness=None)
    assert next_target(live(changes=[had, off])) == 0.95
    assert next_target(steered()) is None


def test_where_there_is_none_that_is_said() -> None:
    monotonous = live(settings=Settings(strategy="monotonous", lateness_ms=None))
    for snapshot in (monotonous, attached.query(), live(ended=True)):
        refusal = auto_refusal(snapshot)
        assert refusal is not None

        async def scenario(it: Driven, refusal: str = refusal) -> None:
            await it.press("A", "l")
            assert len(it.toasts()) == 1
            assert it.client.sent == []
            assert refusal[:60] in it.said("#auto")
            assert "A autopilot" not in it.said("KeyLine")

        drive(scenario, *told(snapshot))


def test_a_read_only_screen_does_not_switch_it() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("A")
        assert set(it.toasts()) == {READ_ONLY}

    drive(scenario, *told(live()), denied=CHANGES_ENGINE)


def test_changes_are_in_the_history() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("h")
        await it.says(SETTINGS_CHANGED, "#holds")
        await it.shows("#holds", "14:20:10  auto ", "45m", "0.08 %")

    drive(scenario, *told(steered()))
