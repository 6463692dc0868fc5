"""The verdict's line: which word, which style, who is blamed; the words themselves only in `test_words`."""

from typing import Any

import pytest
from wmtop.engine.doctor import Fix
from wmtop.engine.snapshot import Blocker, Holder, Reason, Snapshot, Verdict, VerdictName, Windows
from wmtop.engine.verdict.preview import ProposedSetting
from wmtop.tui.words import verdict as v
from wmtop.tui.words.fleet import fleet_row
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.naming import count_of, named
from wmtop.tui.words.spans import Part, lay
from wmtop.tui.words.verdict_words import WORDS

from tests.snapshots import replace

from ...doctor.patients import problem
from ...doctor.streams import SETTINGS, Stream, traffic
from .. import canned
from ..canned import HOUR, LEVEL, MINUTE, NOW

QUIET = [
    Blocker(["F9"], 5 * MINUTE, LEVEL, "quiet", 1),
    Blocker(["YV", "VX"], 2 * HOUR, LEVEL + 5 * MINUTE, "never_seen", 2),
]


def judged(name: VerdictName, reason: Reason | None = None, **more: Any) -> Snapshot:
    age = 40 * MINUTE if name in ("stalled", "waiting") else 0
    verdict = Verdict(
        name, NOW - 40 * MINUTE, age_ms=age, patience_ms=30 * MINUTE, speed=1.0, reason=reason or Reason("advancing")
    )
    return canned.live(**({"verdict": verdict, "blockers": QUIET} | more))


def styles(parts: list[Part]) -> set[str]:
    return {style for item in parts for _, style in item.spans}


def text(parts: list[Part]) -> str:
    return "".join(run for item in parts for run, _ in item.spans)


@pytest.mark.parametrize("lost", [None, "gone"])
@pytest.mark.parametrize("silent_ms", [None, 0, 60_000])
@pytest.mark.parametrize("state", ["live", "stale", "failed", "starting"])
def test_nothing_that_is_lost_is_moving(state: Any, silent_ms: int | None, lost: str | None) -> None:
    snapshot = judged("moving", state=state)
    found = v.seen_verdict(snapshot, lost=lost, silent_ms=silent_ms)
    healthy = state == "live" and lost is None and (silent_ms or 0) <= v.STALE_AFTER_MS
    assert found.verdict == ("moving" if healthy else "unknown")
    parts = v.verdict_parts(snapshot, lost=lost, silent_ms=silent_ms)
    assert ("good" in styles(parts)) == healthy
    assert (WORDS["moving"] in text(parts)) == healthy


def test_what_has_ended_stays_ended() -> None:
    snapshot = judged("ended", Reason("ended"), ended=True, state="ended")
    assert v.seen_verdict(snapshot, lost="gone", silent_ms=60_000).verdict == "ended"


def test_a_failed_engine_says_why_it_failed() -> None:
    snapshot = judged("moving", state="failed", error="disk full on /data")
    assert v.seen_verdict(snapshot, lost="gone").reason.code == "failed"
    assert "disk full on /data" in text(v.verdict_parts(snapshot, lost="gone"))


@pytest.mark.parametrize(
    ("name", "style"),
    [("moving", "good"), ("slow", "stale"), ("stalled", "bad"), ("waiting", "stale"), ("unknown", "stale")],
)
def test_the_style_is_the_severity(name: VerdictName, style: str) -> None:
    assert v.verdict_parts(judged(name))[0].spans[0] == (f" ● {WORDS[name]}", style)


def test_findings_colour_a_good_verdict() -> None:
    quiet = replace(SILENT, severity="critical")
    for findings, style in (([], "good"), ([SILENT], "stale"), ([SILENT, quiet], "bad")):
        assert v.verdict_parts(judged("moving"), findings)[0].spans[0][1] == style


@pytest.mark.parametrize(
    ("age_ms", "pace_ms", "speed", "said"),
    [
        (MINUTE - 1, None, 1.0, ""),
        (MINUTE, None, 1.0, "advanced 1m ago"),
        (40 * MINUTE, 20 * MINUTE, 1.0, "advanced 40m ago (usually every 20m)"),
        (0, 10_000, 0.3, "advances at 0.3 of real time"),
        (0, 10_000, 600.0, ""),
    ],
)
def test_what_is_said_of_a_watermark_that_moves(age_ms: int, pace_ms: int | None, speed: float, said: str) -> None:
    verdict = Verdict(
        "moving", NOW, age_ms=age_ms, pace_ms=pace_ms, patience_ms=HOUR, speed=speed, reason=Reason("advancing", ms=1)
    )
    line = v.verdict_line(judged("moving", verdict=verdict))
    assert line == "MOVING  " + " · ".join(filter(None, [said, "43m behind fastest"]))


def test_the_blame_is_the_first_cause_only() -> None:
    both = replace(judged("stalled"), blockers=[QUIET[0], replace(QUIET[1], cause="quiet")])
    assert all(name in (v.blame(both) or "") for name in ("F9", "YV", "VX"))
    first = v.blame(judged("stalled")) or ""
    assert "F9" in first
    assert "YV" not in first
    assert v.blame(replace(both, blockers=[])) is None
    assert v.blame(replace(both, blockers=None)) is None


def test_more_blockers_than_named_are_counted() -> None:
    assert named(["a", "b", "c", "d"], 120) == named(["a", "b", "c"], 120)
    assert "117" in named(["a", "b", "c"], 120)
    assert count_of([Blocker(["a"], 0, 0, "quiet", 1_000), Blocker(["b"], 0, 0, "quiet")]) == 1_001


def test_channels_near_the_fastest_are_not_blamed() -> None:
    """One repeats its timestamp; the others are a second apart at the front, and behind the fastest as well."""
    front = [Blocker([name], 30 * MINUTE + n * 1_000, LEVEL, "behind", 1) for n, name in enumerate(("YV", "VX"), 1)]
    blockers = [Blocker(["F9"], 30 * MINUTE, LEVEL, "behind", 1), *front]
    snapshot = judged("stalled", blockers=blockers)
    level = replace(snapshot.level, behind_fastest_ms=30 * MINUTE + 3_000)
    blamed = v.blame(replace(snapshot, level=level))
    assert blamed is not None
    assert "F9" in blamed
    assert "YV" not in blamed
    both = [replace(blockers[0], gain_ms=5 * MINUTE), *front]
    assert "F9, YV " in (v.blame(replace(snapshot, level=level, blockers=both)) or ""), "F9 alone frees little"


SILENT = problem("silent-channels", "warning", channels=("AS",), size=1, blames="quiet")


def test_a_finding_beside_a_good_verdict_is_named() -> None:
    parts = v.verdict_parts(judged("moving"), [replace(SILENT, title="p1 is an hour ahead"), SILENT])
    line = "".join(run for run, _ in lay(parts, 200))
    assert "43m behind fastest · p1 is an hour ahead · 2 findings" in line


def test_a_critical_finding_comes_first_whatever_the_verdict() -> None:
    critical = replace(SILENT, severity="critical", title="p1 is an hour ahead")
    parts = v.verdict_parts(judged("moving"), [critical])
    assert "MOVING  p1 is an hour ahead" in "".join(run for run, _ in lay(parts, 40))


def test_windows_wait_that_the_fastest_channel_has_passed() -> None:
    snapshot = canned.live()
    level = snapshot.level
    assert level.behind_fastest_ms is not None
    fastest = LEVEL + level.behind_fastest_ms
    passed = sum(LEVEL < window.end_ms - 1 <= fastest for window in snapshot.windows.open)
    assert passed
    assert v.waiting_windows(snapshot) == (passed, False)
    assert v.waiting_windows(canned.attached()) == (0, False)


def test_a_stall_has_the_age_of_its_watermark() -> None:
    stalled = judged("stalled", Reason("records_come"))
    verdict = replace(stalled.verdict, age_ms=7 * HOUR, pace_ms=12 * MINUTE)
    line = v.verdict_line(replace(stalled, verdict=verdict))
    assert line.startswith("STALLED 7h  (usually every 12m)  F9 has no data")
    bound = v.verdict_line(replace(stalled, verdict=replace(verdict, age_at_least=True, pace_ms=10_000)))
    assert bound.startswith("STALLED ≥ 7h  (usually every few seconds)")


def test_the_fix_is_the_first_setting_and_has_its_key() -> None:
    fixes = (Fix(code="check-channels"), Fix(code="set-idle-timeout", value_ms=2 * HOUR, gain_ms=12 * HOUR))
    finding = problem("no-data", fixes=fixes)
    snapshot = judged("stalled")
    offer = v.offer_of(snapshot, [finding])
    # What it does now is not known: no valve in this snapshot. The doctor names the same number.
    assert offer == v.Offer(ProposedSetting(True, 2 * HOUR), 12 * HOUR, at_once=False)
    assert "fix: idle timeout 2h: +12h if set from the start" in text(v.verdict_parts(snapshot, [finding], offer=offer))
    assert "gains 12h if set from the start" in fixes[1].words(snapshot)
    gains = v.Offer(ProposedSetting(True, 2 * HOUR), 4 * MINUTE)
    said = text(v.verdict_parts(snapshot, [finding], offer=gains, key="v"))
    assert "2h" in said
    assert "+4m" in said
    assert "12h" not in said  # what it would have given from the start is not what it does now
    assert "(v)" in said
    assert "(v)" not in text(v.verdict_parts(snapshot, [finding], offer=gains))
    assert v.offer_of(snapshot, []) is None


def test_the_headline_of_a_critical_finding_is_in_the_line_whatever_the_word() -> None:
    lost, blocks = problem("future-timestamps", "critical"), problem("silent-channels", "critical", channels=("F9",))
    for name in ("moving", "slow", "stalled", "waiting", "unknown"):
        assert "x is ahead" in v.verdict_line(judged(name), [replace(lost, title="x is ahead")])
    line = v.verdict_line(judged("stalled", blockers=QUIET[:1]), [replace(blocks, title="x blocks it")])
    assert "x blocks it" not in line  # the blame says so in other words


def test_a_long_headline_is_shown_without_its_cause_rather_than_not_at_all() -> None:
    title = "c08204, c00958, c03681 and 90 more channels hold back the watermark: no data for up to 3m40s"
    parts = v.verdict_parts(judged("moving"), [replace(SILENT, title=title)], key="v")
    line = "".join(span for span, _ in lay(parts, 120))
    assert title.partition(":")[0] in line
    assert "no data" not in line
    assert "1 finding (d)" in line


def test_a_bad_verdict_offers_only_what_accounts_for_it() -> None:
    """Of a stream whose producers have stopped, too small a lateness is found as well; it is not the fix."""
    fixes = (Fix(code="set-lateness", value_ms=10 * MINUTE),)
    small = problem("lateness-too-small", "warning", fixes=fixes)
    assert v.offer_of(judged("moving"), [small]) is not None
    assert v.offer_of(judged("slow"), [small]) is None
    assert v.offer_of(judged("stalled"), [small]) is None


def test_words() -> None:
    snapshot = judged("stalled", Reason("records_come"), blockers=QUIET[:1])
    assert v.verdict_line(snapshot).startswith("STALLED 40m  F9 has no data · 1 window waits")
    assert v.verdict_line(judged("moving")) == "MOVING  43m behind fastest"


def test_the_line_counts_as_the_doctor_does() -> None:
    stream = Stream(replace(SETTINGS, idle_after_ms=None)).run(60, traffic("abcd")).run(180, traffic("ab"))
    assert stream.snapshot is not None
    [silent] = stream.findings()
    assert silent.code == "silent-channels"
    line = v.verdict_line(stream.snapshot, [silent])
    assert f"{name_list(silent.channels)} have no data" in line
    assert f"{silent.windows} windows wait" in line
    assert str(silent.windows + 7) in v.verdict_line(stream.snapshot, [replace(silent, windows=silent.windows + 7)])


def name_list(channels: tuple[str, ...]) -> str:
    return ", ".join(channels)


def test_an_attached_query_that_was_stopped_keeps_its_windows() -> None:
    own = judged("ended", Reason("ended"), ended=True, state="ended")
    stopped = replace(own, ended=False, origin={"level": "event log"}, windows=Windows(open_count=3))
    ours, theirs = v.verdict_line(own), v.verdict_line(stopped)
    assert ours != theirs
    assert "3" in theirs


def test_a_stalled_query_s_line_says_what_its_first_finding_explains() -> None:
    """And not how many records its last batches have not read yet."""
    stalled = judged("stalled", Reason("unread_records", records=10), blockers=[], channels=[])
    holds = replace(problem("input-holds-back"), title="The input of ts holds back the watermark")
    assert "10 records" in v.verdict_line(stalled)
    line = v.verdict_line(stalled, [holds])
    assert "The input of ts holds back the watermark" in line
    assert "10 records" not in line


def test_a_lost_engine_is_the_reason_not_what_was_wrong_before() -> None:
    stream = Stream(replace(SETTINGS, idle_after_ms=None)).run(60, traffic("abcd")).run(400, traffic("ab"))
    snapshot = stream.snapshot
    assert snapshot is not None
    findings = stream.findings(lost="killed")
    assert [one.code for one in findings] == ["engine-failed", "silent-channels"]
    parts = v.verdict_parts(snapshot, findings, lost="killed", silent_ms=17_000)
    line = "".join(run for run, _ in lay(parts, 200))
    assert "UNKNOWN  The engine has stopped · no snapshot for 17s · 2 findings" in line
    assert line.count("The engine has stopped") == 1


def test_a_slow_watermark_falls_behind_by_so_much_an_hour() -> None:
    reason = Reason("losing_ground", ms=42 * MINUTE, over_ms=2 * HOUR)
    said = v.verdict_line(judged("slow", reason, blockers=QUIET[:1]))
    assert said.startswith("SLOW  falls behind the clock by 21m an hour · F9")


def test_a_future_timestamp_makes_no_channel_lag() -> None:
    ahead = replace(canned.live().level, holder=Holder("F9", NOW, "future_elsewhere"))
    snapshot = judged("moving", level=ahead)
    assert "behind fastest" not in text(v.verdict_parts(snapshot))
    held = text(list(presenter_of(snapshot).holder(None)))
    assert "held back" not in held
    assert "ahead of the others" in held


@pytest.mark.parametrize(
    ("name", "quiet_ms", "blamed"),
    [
        ("moving", MINUTE, False),
        ("moving", 11 * MINUTE, True),
        ("unknown", MINUTE, False),
        ("stalled", MINUTE, True),
        ("slow", MINUTE, True),
    ],
)
def test_the_slowest_of_channels_that_are_close_is_not_blamed(name: VerdictName, quiet_ms: int, blamed: bool) -> None:
    """Also by an old snapshot, and between two of its batches."""
    snapshot = judged(name)
    snapshot = replace(snapshot, verdict=replace(snapshot.verdict, patience_ms=HOUR))
    level = replace(snapshot.level, behind_fastest_ms=MINUTE, holder=Holder("F9", NOW - MINUTE, "quiet"))
    channels = [replace(view, quiet_ms=quiet_ms) for view in snapshot.channels]
    held = text(list(presenter_of(replace(snapshot, level=level, channels=channels)).holder(None)))
    assert ("held back by F9" in held) == blamed
    assert ("slowest F9" in held) != blamed


def test_long_names_leave_room_for_the_fix() -> None:
    names = [f"device-{number:05d}" for number in range(5)]
    long = v.blame(judged("stalled", blockers=[Blocker(names, 2 * HOUR, LEVEL, "quiet", 25)]))
    assert long == "device-00000 and 24 more have no data"
    longer = v.blame(judged("stalled", blockers=[Blocker(["a" * 60, "bbbbb"], 2 * HOUR, LEVEL, "quiet", 2)]))
    assert longer is not None
    assert longer.endswith("and 1 more have no data")


def test_eighty_columns_have_room_for_the_fix_of_channels_with_long_names() -> None:
    names = [f"sensor-{number:03d}" for number in range(10)]
    snapshot = judged("stalled", blockers=[Blocker(names, 2 * HOUR, LEVEL, "quiet", 10)])
    parts = v.verdict_parts(snapshot, offer=v.Offer(ProposedSetting(True, HOUR), 2 * HOUR), key="v")
    line = "".join(run for run, _ in lay(parts, 80))
    assert "sensor-000 and 9 more have no data · idle timeout 1h: +2h (v)" in line


def test_sixty_columns_have_room_for_the_key_of_the_fix() -> None:
    blocked = [Blocker(["events-0"], 2 * HOUR, LEVEL, "quiet", 1)]
    parts = v.verdict_parts(judged("stalled", blockers=blocked), offer=v.Offer(ProposedSetting(True, HOUR), 9), key="v")
    assert "".join(run for run, _ in lay(parts, 60)).strip().endswith("events-0 · idle timeout 1h: +9ms (v)")
    names = [f"orders-{number}" for number in range(125)]
    many = judged("stalled", blockers=[Blocker(names, 2 * HOUR, LEVEL, "quiet", 125)])
    priced = v.verdict_parts(many, offer=v.Offer(ProposedSetting(True, HOUR), 2 * HOUR, "0.4 % late"), key="v")
    lines = {width: "".join(run for run, _ in lay(priced, width)).rstrip() for width in (60, 80, 100)}
    assert lines[60].endswith("40m  orders-0 +124 · idle timeout 1h: +2h (v)")
    assert lines[80].endswith("40m  orders-0 +124: no data · idle timeout 1h: +2h, 0.4 % late (v)")
    assert "orders-0, orders-1 and 123 more have no data · idle timeout 1h: +2h, 0.4 % late (v)" in lines[100]


def test_what_has_been_watched_for_too_short_a_time_is_said_in_whole_words_at_any_width() -> None:
    verdict = Verdict("unknown", patience_ms=10 * MINUTE, reason=Reason("too_short", ms=0))
    parts = v.verdict_parts(judged("unknown", verdict=verdict))
    lines = {width: "".join(run for run, _ in lay(parts, width)).strip() for width in (60, 80, 120)}
    assert lines[60] == lines[80] == "● UNKNOWN  watched for 0s of 10m: no verdict yet"
    assert "needs an advance of the watermark, or 10m without one" in lines[120]


def test_sixty_columns_have_room_for_the_age_beside_a_critical_finding() -> None:
    verdict = Verdict("moving", NOW, age_ms=36 * MINUTE, pace_ms=59 * MINUTE, reason=Reason("advancing"))
    found = replace(problem("lateness-too-small", severity="critical"), title="Lateness is too small")
    parts = v.verdict_parts(judged("moving", verdict=verdict), [found])
    assert "".join(run for run, _ in lay(parts, 60)).strip() == ("● MOVING  Lateness is too small · advanced 36m ago")


def test_a_raised_lateness_blames_no_channel() -> None:
    """Every channel's watermark is frozen: the slowest one is no further behind than before."""
    stream = Stream(SETTINGS).run(120, traffic("abcd", behind={"d": 3_000})).change(lateness_ms=30 * MINUTE)
    snapshot, findings = stream.run(120, traffic("abcd", behind={"d": 3_000})).snapshot, stream.findings()
    assert snapshot is not None
    holder = snapshot.level.holder
    assert (snapshot.verdict.verdict, holder and holder.cause) == ("waiting", "lateness_raised")
    line = text(v.verdict_parts(snapshot, findings))
    assert "moves again after 27m of event time" in line
    assert "lagging" not in line
    assert "event time has to catch up" in text(presenter_of(snapshot).holder(None))
    assert fleet_row("x", "run", snapshot, (), None).held_back_by is None
