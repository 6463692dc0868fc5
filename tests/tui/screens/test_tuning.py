"""Tuning by keys and by typing: the preview follows at once, Enter applies it, Esc drops it."""

import pytest
from wmtop.engine.feed.messages import Change, Reply
from wmtop.engine.snapshot import SettingsChange
from wmtop.engine.text.formatting import DURATION_HOW
from wmtop.engine.watermarks.settings import Settings
from wmtop.tui.widgets.barrel import Barrel
from wmtop.tui.words.texts import DID_NOT_MOVE, ENGINE_GONE, SHARE_UNKNOWN, not_applied, refused

from tests.snapshots import replace

from ..canned import HOUR, LEVEL, MINUTE, NOW, SETTINGS, live, many, reported
from ..drive import Driven, drive


def test_plus_moves_the_dotted_level_the_late_share_and_the_delay() -> None:
    async def scenario(it: Driven) -> None:
        assert "┈" not in it.said("Barrel")
        await it.press("plus")
        await it.says("lateness 30m ▸ 45m?", "#tuning")
        await it.says("0.7 % late, results 15m later")
        await it.says("now: ")
        await it.says("13:32 ┈", "Barrel")
        await it.shows("#top", " 45m ")
        await it.press("plus")
        await it.says("13:17 ┈", "Barrel")
        await it.says("Enter apply 1h", "KeyLine")
        await it.press("minus", "minus")
        assert "?" not in it.said("#tuning")
        assert "┈" not in it.said("Barrel")
        await it.press("minus")
        await it.says("lateness 30m ▸ 20m?", "#tuning")
        await it.says("results 10m sooner")
        assert it.client.sent == []

    drive(scenario, *reported(live()))


def test_enter_applies_whatever_has_the_focus_and_the_reply_is_shown() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("tab", "plus", "enter")
        assert it.client.sent == [Change(id=1, lateness_ms=45 * MINUTE, who="screen")]
        assert "?" not in it.said("#tuning")
        await it.push(Reply(id=1, ok=True), live(settings=replace(SETTINGS, lateness_ms=45 * MINUTE, version=2)))
        assert it.toasts() == ["lateness 45m applied"]
        await it.says("lateness 45m ", "#tuning")
        await it.press("enter")
        assert len(it.client.sent) == 1

    drive(scenario, *reported(live()))


def test_u_undoes_what_was_applied_once_the_engine_has_it() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("plus", "enter", "u")
        assert len(it.client.sent) == 1  # not in force yet: there is nothing to undo
        made = SettingsChange(2, 7, 1, "screen", lateness_ms=45 * MINUTE, now_ms=NOW)
        longer = live(settings=replace(SETTINGS, lateness_ms=45 * MINUTE, version=2), changes=[made])
        await it.push(Reply(id=1, ok=True), longer)
        assert "applied" not in it.said()  # no emit has applied it yet
        emitted = replace(made, emitted_ms=NOW, moved_ms=4 * MINUTE)
        await it.push(replace(longer, changes=[emitted]))
        await it.says("lateness 45m: +4m")
        await it.press("escape")
        assert "+4m" not in it.said()
        await it.press("u")
        assert it.client.sent[1:] == [Change(id=2, lateness_ms=30 * MINUTE, who="screen")]
        back = SettingsChange(3, 8, 1, "screen", lateness_ms=30 * MINUTE, now_ms=NOW, emitted_ms=NOW, moved_ms=0)
        await it.push(Reply(id=2, ok=True), live(settings=replace(SETTINGS, version=3), changes=[emitted, back]))
        await it.shows("Canvas, Rows", "30m", DID_NOT_MOVE)
        assert "undone" in it.said()
        assert "applied" not in it.said()
        it.client.end()
        await it.until(lambda: "STOPPED" in it.said("#status") and DID_NOT_MOVE not in it.said())

    drive(scenario, *reported(live()))


def test_a_barrel_without_room_for_its_picture_says_nothing_of_missing_records() -> None:
    async def scenario(it: Driven) -> None:
        lines = it.app.screen.query_one(Barrel).draw(58, 2)
        assert "".join(text for line in lines for text, _ in line).strip() == ""

    drive(scenario, *reported(live()))


def test_a_refusal_is_shown_with_its_reason_as_text() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("right_square_bracket", "enter")
        assert it.client.sent == [Change(id=1, idle_after_ms=6 * HOUR, who="screen")]
        await it.push(Reply(id=1, ok=False, text="[b]read-only\x1b[0m"))
        assert it.toasts() == [refused("idle timeout 6h", "[b]read-only␛[0m")]

    drive(scenario, *reported(live()))


def test_an_engine_that_is_gone_takes_nothing() -> None:
    async def scenario(it: Driven) -> None:
        it.client.end()
        await it.until(lambda: "STOPPED" in it.said("#status"))
        await it.press("plus")
        await it.says("now: nothing can be applied")
        assert "Enter" not in it.said("KeyLine")
        await it.press("b")
        await it.says("Blockers")
        assert "apply" not in it.said("KeyLine")
        await it.press("enter")
        assert it.client.sent == []
        assert it.toasts() == [not_applied("lateness 45m", ENGINE_GONE)]

    drive(scenario, *reported(live()))


def test_escape_drops_the_preview_first() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("slash", "F", "9", "enter", "plus", "escape")
        assert "?" not in it.said("#tuning")
        await it.says("/F9", "#middle")
        await it.press("escape")
        assert "/F9" not in it.said("#middle")
        assert it.client.sent == []

    drive(scenario, *reported(live()))


def test_a_typed_lateness_is_previewed_as_it_is_typed() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("equals_sign", *"52m")
        await it.says("lateness 30m ▸ 52m?", "#tuning")
        await it.says("0.5–0.7 % late")
        await it.says("results 15m–30m later")
        await it.says("13:25 ┈", "Barrel")
        await it.press("enter")
        assert it.client.sent == [Change(id=1, lateness_ms=52 * MINUTE, who="screen")]
        await it.says("lateness", "KeyLine")

    drive(scenario, *reported(live()))


@pytest.mark.parametrize("wrong", ["4x", "4000000d"])
def test_a_wrong_duration_is_shown_in_whole_words_also_at_60_columns(wrong: str) -> None:
    async def scenario(it: Driven) -> None:
        await it.press("equals_sign", *wrong, "enter")
        note = it.app.screen.query_one("#prompt-note")
        shown = " ".join(note.render_line(y).text.strip() for y in range(note.size.height))
        assert shown == str(note.render())
        prompt = it.app.screen.query_one("Prompt")
        assert (note.region.right, prompt.region.bottom) == (60, 20)
        assert it.app.screen.query_one("Input").region.right <= 60
        await it.press("escape")
        assert it.app.screen.query_one("#keys").region.bottom == 20

    drive(scenario, *reported(live()), size=(60, 20))


def test_a_wrong_duration_is_one_line_and_escape_leaves() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("equals_sign", *"4x", "enter")
        note = it.app.screen.query_one("#prompt-note")
        assert str(note.render()) == DURATION_HOW
        assert note.has_class("-error")
        await it.press("backspace")
        assert not note.has_class("-error")
        await it.press("escape")
        assert not it.app.screen.query_one("Prompt").display
        await it.press("equals_sign", *"1h", "escape")
        assert not it.app.screen.query_one("Prompt").display
        assert "?" not in it.said("#tuning")
        assert it.client.sent == []

    drive(scenario, *reported(live()))


def test_the_idle_preview_is_read_from_its_ladder() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("left_square_bracket")
        await it.says("idle after 2h ▸ 1h?", "#tuning")
        await it.shows("Canvas, Rows", "+3m", "2.0 %", " HA")
        await it.shows("#top", " 1h ")
        await it.press("left_square_bracket")
        await it.says("≈ 2.8 % late")
        await it.press(*["right_square_bracket"] * 4)
        await it.says("▸ off?", "#tuning")
        await it.press("plus")
        await it.says("lateness 30m ▸ 45m?", "#tuning")
        assert "idle after 2h ▸" not in it.said("#tuning")
        await it.press("right_square_bracket", "right_square_bracket", "enter")
        assert it.client.sent == [Change(id=1, idle_after_ms=None, who="screen")]

    drive(scenario, *reported(live()))


def test_the_preview_follows_new_snapshots() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("plus")
        moved = live()
        level = replace(moved.level, at_zero_lateness_ms=LEVEL + 90 * MINUTE, watermark_ms=LEVEL + HOUR)
        await it.push(replace(moved, level=level))
        await it.says("14:32 ┈", "Barrel")

    drive(scenario, *reported(live()))


def test_a_strategy_without_lateness_says_so() -> None:
    async def scenario(it: Driven) -> None:
        for key in ("plus", "equals_sign"):
            it.app.clear_notifications()
            await it.press(key)
            assert it.toasts() == ["punctuated: marker records set the watermark, so there is no lateness to tune"]
        await it.says("lateness none (punctuated)", "#tuning")
        assert "+/-" not in it.said("KeyLine")
        assert not it.app.screen.query_one("Prompt").display

    settings = Settings(strategy="punctuated", lateness_ms=None, marker="flag")
    drive(scenario, *reported(live(settings=settings, whatif=None)))


def test_without_a_what_if_only_typing_previews() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("plus", "left_square_bracket")
        assert len(it.toasts()) == 2
        await it.press("equals_sign", *"1h")
        await it.says(SHARE_UNKNOWN)
        await it.says("13:17 ┈", "Barrel")

    drive(scenario, *reported(live(whatif=None, whatif_idle=None)))


def test_a_level_far_below_the_picture_widens_it() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("equals_sign", *"2h")
        await it.says("12:17 ┈", "Barrel")

    drive(scenario, *reported(many(40)), size=(80, 24))
