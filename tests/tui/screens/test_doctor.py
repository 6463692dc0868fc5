"""The doctor's screen: the list, the evidence, the way to what mends it, and the count on the main screen."""

from wmtop.engine.doctor import diagnose
from wmtop.engine.doctor.progress import CANNOT_TELL
from wmtop.engine.feed.messages import Header
from wmtop.engine.snapshot import Offender, Reason, Snapshot, Totals, Verdict
from wmtop.engine.system.errors import how_it_ended
from wmtop.tui.screens.channels import ChannelScreen
from wmtop.tui.screens.doctor import DoctorScreen
from wmtop.tui.screens.main import MainScreen
from wmtop.tui.screens.target_screen import DetailScreen
from wmtop.tui.words.texts import NO_FIX

from tests.snapshots import replace

from ...doctor.patients import LATE, before, healthy, whatif
from ...doctor.test_channels import silent
from ...doctor.test_stable_fixes import proposed, stalled
from .. import canned
from ..canned import DAY, MINUTE, NOW
from ..drive import Driven, drive


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


def well() -> tuple[Header, Snapshot]:
    return canned.header(before(healthy())), healthy()


def test_a_healthy_stream_has_nothing_to_count() -> None:
    async def scenario(it: Driven) -> None:
        await it.says("d doctor ", "#keys")
        assert "doctor (" not in it.said("#keys")
        await it.press("d")
        await it.says("no findings", "#top")
        await it.says("No findings", "SectionedText")
        await it.press("enter", "v", "down", "space")
        assert isinstance(it.app.screen, DoctorScreen)

    drive(scenario, *well(), size=(200, 50))


def test_without_history_there_is_no_all_clear() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d")
        await it.says("1 finding", "#top")
        await it.says("INFO", "Sheet")
        await it.says(CANNOT_TELL, "Sheet")

    drive(scenario, canned.header(), healthy(verdict=Verdict("unknown", reason=Reason("too_short"))))


def test_an_engine_that_died_is_the_first_finding() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d")
        it.client.end(how_it_ended(-9))
        await it.says("1 finding", "#top")
        await it.says("CRITICAL", "Sheet")
        await it.says(how_it_ended(-9), "SectionedText")

    drive(scenario, *well())


def test_an_engine_that_sends_nothing_is_a_finding() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d")
        it.clock.now += 60
        await it.until(lambda: "CRITICAL" in it.said("Sheet"))

    drive(scenario, *well())


def test_the_worst_is_first_and_below_it_is_the_fix() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d")
        await it.says("main › Doctor  3 findings", "#top")
        lines = [line.split()[0] for line in it.said("Sheet").splitlines() if line.strip()]
        assert lines == ["CRITICAL", "WARNING", "WARNING"]
        await it.shows("SectionedText", " 1m")

    drive(scenario, history(ill()), ill())


def test_enter_opens_the_screen_that_shows_it_and_esc_returns() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "enter")
        assert isinstance(it.app.screen, ChannelScreen)
        await it.press("escape")
        assert isinstance(it.app.screen, DoctorScreen)
        await it.until(lambda: "lateness" in it.said("#keys"))
        await it.press("end", "enter")
        assert isinstance(it.app.screen, DetailScreen)
        assert not isinstance(it.app.screen, DoctorScreen)

    drive(scenario, history(ill()), ill())


def test_space_shows_the_finding_alone_and_esc_leads_back_step_by_step() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "down", "space")
        await it.says("main › Doctor › ", "#top")
        assert not it.app.screen.query_one("#findings").display
        await it.says("WARNING: ", "SectionedText")
        await it.press("escape")
        assert it.app.screen.query_one("#findings").display
        await it.press("escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, history(ill()), ill(), size=(80, 24))


def test_v_previews_the_setting_that_fixes_it_and_enter_applies_it() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "v")
        await it.says("Enter apply 1m", "#keys")
        await it.press("enter")
        [change] = it.client.sent
        assert change.idle_after_ms == 60_000

    drive(scenario, history(ill()), ill())


def test_it_offers_what_the_line_of_the_verdict_offers() -> None:
    """A fix once offered for a stall stays, also here: a look at the last snapshot alone gives another one."""
    stream = stalled()
    first, last = stream.published[36], stream.published[300]
    alone = proposed(diagnose(last, stream.past))

    async def scenario(it: Driven) -> None:
        await it.press("d")
        await it.push(last)
        assert it.app._main is not None
        offer = it.app._main.shown.offer
        assert offer is not None
        assert alone is not None
        assert offer.proposed != alone.proposed
        await it.says(f"preview {offer.proposed.words()}", "#keys")

    drive(scenario, canned.header([]), first)


def test_where_no_setting_fixes_it_it_says_so() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d")
        set_aside = replace(healthy(), totals=Totals(records=200_000, late=800, future=17),
                            last_future=Offender("b", 81_204, NOW + 3 * DAY))  # fmt: skip
        await it.push(set_aside)
        await it.says("1 finding", "#top")
        await it.press("v")
        assert it.toasts() == [NO_FIX]

    drive(scenario, *well())


def test_a_finding_that_goes_away_leaves_the_cursor_on_another() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "end", "space")
        await it.push(replace(ill(), totals=Totals(records=200_000, late=9_000)))
        await it.says("2 findings", "#top")
        await it.says("Fix", "SectionedText")
        await it.press("escape", "escape")
        assert isinstance(it.app.screen, MainScreen)

    drive(scenario, history(ill()), ill())


def test_it_explains_itself() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "question_mark")
        help_ = " ".join(str(widget.render()) for widget in it.app.screen.query("Static"))
        assert "Reading Doctor" in help_
        assert "CRITICAL" in help_

    drive(scenario, *well())


def test_doctor_copy_takes_the_title_of_the_finding() -> None:
    async def scenario(it: Driven) -> None:
        await it.press("d", "y")
        screen = it.app.screen
        assert isinstance(screen, DoctorScreen)
        chosen = screen.chosen()
        assert chosen is not None
        assert it.app.clipboard == chosen.name
        assert chosen.row.startswith(("CRITICAL", "WARNING", "INFO"))
        assert " " in chosen.name  # words, not a code

    drive(scenario, history(ill()), ill())
