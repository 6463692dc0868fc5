"""The doctor's screen: the list, the evidence, the way to what mends it, and the count on the main screen."""

from msgspec.structs import replace
from wmtop.engine.core.snapshot import Offender, Snapshot, Totals
from wmtop.tui.screens.doctor import DoctorScreen
from wmtop.tui.screens.main import MainScreen

from tests.core.doctor.patients import LATE, before, whatif
from tests.core.doctor.test_channels import silent

from . import canned
from .canned import DAY, MINUTE, NOW, live
from .drive import Driven, drive


def ill() -> Snapshot:
    """A silent channel without an idle timeout, too little lateness, and records from the future."""
    return replace(
        silent(10 * MINUTE),
        totals=Totals(records=200_000, late=9_000, future=17),
        whatif=whatif(200_000, {edge: count * 11 for edge, count in LATE.items()}),
        last_future=Offender("b", 81_204, NOW + 3 * DAY),
    )


def history(snapshot: Snapshot) -> object:
    return canned.header(before(snapshot))


def test_the_main_screen_says_how_much_is_wrong() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("d doctor (3)", "#keys")

    drive(scenario, history(ill()), ill(), size=(80, 24))


def test_a_healthy_stream_has_nothing_to_count() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("d doctor ", "#keys")
        assert "doctor (" not in it.said("#keys")
        await it.press("d")
        await it.says("nothing found", "#top")
        await it.says("Nothing is wrong, as far as can be seen", "Report")
        await it.press("enter", "v", "down")
        assert isinstance(it.app.screen, DoctorScreen)

    drive(scenario, *canned.told(live()), size=(200, 50))


def test_the_worst_is_first_and_below_it_stands_what_mends_it() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d")
        await it.says("main › Doctor  3 findings", "#top")
        lines = [line.split()[0] for line in it.said("Sheet").splitlines() if line.strip()]
        assert lines == ["STOPS", "LOSES", "COSTS"]
        await it.says("idle timeout 1m: the level gains 9m57s", "Report")
        await it.press("down")
        await it.says("lateness 30s: 0.1 % late, results 25s later", "Report")
        await it.says("9,000 records came after their windows had closed: 4.5 %", "Report")

    drive(scenario, history(ill()), ill())


def test_enter_shows_the_evidence_alone_and_esc_leads_back_step_by_step() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "down", "enter")
        await it.says("main › Doctor › lateness is too small", "#top")
        assert not it.app.screen.query_one("#findings").display
        await it.says("LOSES 4.5 % of the records are lost (9,000)", "Report")
        await it.press("escape")
        assert it.app.screen.query_one("#findings").display
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, history(ill()), ill(), size=(80, 24))


def test_v_previews_the_setting_that_mends_it_and_enter_applies_it() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "down", "v")
        await it.says("lateness 5s ▸ 30s?", "#tuning")
        await it.says("Enter apply 30s", "#keys")
        await it.press("enter")
        [change] = it.client.sent
        assert change.lateness_ms == 30_000

    drive(scenario, history(ill()), ill())


def test_where_no_setting_mends_it_it_says_so() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "end", "v")
        assert it.toasts() == ["no setting mends this one"]

    drive(scenario, history(ill()), ill())


def test_a_finding_that_goes_away_leaves_the_cursor_on_another() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "end", "enter")
        await it.push(replace(ill(), totals=Totals(records=200_000, late=9_000)))
        await it.says("2 findings", "#top")
        await it.says("What mends it", "Report")
        await it.push(replace(live(), name="well"))
        await it.says("nothing found", "#top")
        await it.press("escape", "escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, history(ill()), ill())


def test_it_explains_itself() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "question_mark")
        help_ = " ".join(str(widget.render()) for widget in it.app.screen.query("Static"))
        assert "Reading Doctor" in help_
        assert "The worst comes first: STOPS" in help_

    drive(scenario, *canned.told(live()))
