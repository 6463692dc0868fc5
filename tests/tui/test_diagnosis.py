"""Findings in words: with numbers and units, with what mends them, and harmless whatever the names are."""

from datetime import UTC
from typing import Any, get_args

import pytest
from msgspec.structs import replace
from wmtop.engine.core.doctor import RULES, Finding, Harm
from wmtop.engine.core.doctor.channels import (
    FlappingIdleness,
    LastWindow,
    LateAfterIdle,
    LeftBehind,
    Skew,
    StuckChannel,
)
from wmtop.engine.core.doctor.clocks import FutureTimestamps, Malformed, ProcessingTime, WrongUnit, ZoneShift
from wmtop.engine.core.doctor.costs import (
    Dropped,
    HungBatch,
    LatenessTooLarge,
    LatenessTooSmall,
    SlowBatches,
    StateGrows,
)
from wmtop.engine.core.snapshot import SparkProgress, WatermarkNode
from wmtop.tui.diagnosis import HARMS, Diagnosis, told
from wmtop.tui.screens.picture import Wish

from . import canned
from .canned import DAY, HOUR, MINUTE, NOON, NOW, attached, live

SECOND = 1_000
KNOWN: dict[str, Any] = {"harm": "loses", "size": 1}
STUCK = StuckChannel(
    **KNOWN, channel="F9", held_ms=26 * MINUTE, quiet_ms=27 * MINUTE, never_seen=False, freed_ms=12 * MINUTE, windows=1,
    records=1_204, idle_after_ms=None, try_idle_ms=15 * MINUTE, try_gain_ms=12 * MINUTE, try_late=658,
)  # fmt: skip
FLAPPING = FlappingIdleness(
    **KNOWN, channel="AS", channels=3, flaps=40, round_ms=3 * HOUR, late=12, idle_after_ms=2 * HOUR,
    try_idle_ms=6 * HOUR,
)  # fmt: skip
FUTURE = FutureTimestamps(
    **KNOWN, channel="EV", records=17, timestamp_ms=NOW + 3 * DAY, ahead_ms=3 * DAY, offset=81_204, part="flights-1",
    guard_ms=5 * MINUTE, drags=False,
)  # fmt: skip
MALFORMED = Malformed(
    **KNOWN, channel="EV", records=40, of_rows=0.02, column="$.ts", unit="epoch ms", offset=9, part=None
)  # fmt: skip
UNIT = WrongUnit(**KNOWN, seen_ms=NOON // 1000, meant_ms=NOON, column="$.ts", unit="ms", better="s")
SLOW = SlowBatches(
    **KNOWN, batch_ms=5_200, emit_every_ms=200, phase="commit_ms", phase_share=0.71, rows_in=900.0, rows_done=300.0,
    backlog=120_000, backlog_per_s=400.0,
)  # fmt: skip
STATE = StateGrows(
    **KNOWN, rows=90_000, before_rows=15_000, windows=40, expected_windows=4, watched_ms=5 * MINUTE, bytes=7_340_032,
    watermark=True,
)  # fmt: skip
TOO_SMALL = LatenessTooSmall(
    **KNOWN, late=5_000, late_share=0.025, recent_share=0.031, lateness_ms=30 * MINUTE, needed_ms=45 * MINUTE,
    needed_share=0.009, later_ms=15.0 * MINUTE,
)  # fmt: skip
EXAMPLES: list[Finding] = [
    STUCK,
    replace(STUCK, never_seen=True, quiet_ms=None, freed_ms=None, windows=0, try_idle_ms=None, try_gain_ms=None),
    LastWindow(
        **KNOWN, quiet_ms=20 * MINUTE, windows=2, records=40, end_ms=NOON, short_ms=4 * MINUTE, idle_after_ms=None
    ),
    FLAPPING,
    replace(FLAPPING, channels=1, late=0, try_idle_ms=None),
    LateAfterIdle(
        **KNOWN,
        channel="AS",
        channels=2,
        late=300,
        late_share=0.15,
        others_share=0.001,
        idle_after_ms=2 * HOUR,
        try_idle_ms=None,
        try_saved=280,
        try_behind_ms=4 * MINUTE,
    ),
    Skew(
        **KNOWN,
        channel="F9",
        behind_ms=3 * HOUR,
        backlog=70_000,
        rate=812.0,
        open_windows=9,
        open_records=8_100,
        balanced=False,
        kafka=True,
    ),
    LeftBehind(**KNOWN, channel="F9", channels=2, behind_ms=3 * HOUR, late=None),
    FUTURE,
    replace(FUTURE, records=None, offset=None, part=None, guard_ms=None, drags=True),
    MALFORMED,
    replace(MALFORMED, of_rows=1.0, channel=None, unit=None),
    UNIT,
    replace(UNIT, seen_ms=NOON * 1000, unit=None),
    ZoneShift(**KNOWN, hours=-2, off_ms=400, channels=16, column=None),
    ProcessingTime(**KNOWN, records=69_000, behind_ms=300, watched_ms=5 * MINUTE, lateness_ms=30 * MINUTE, column=None),
    TOO_SMALL,
    replace(TOO_SMALL, recent_share=None, needed_ms=None, needed_share=None, later_ms=None, lateness_ms=None),
    Dropped(**KNOWN, rows=41, lateness_ms=30_000, column="ts"),
    LatenessTooLarge(
        **KNOWN, lateness_ms=HOUR, late_share=0.0, enough_ms=5 * MINUTE, enough_share=0.0004, sooner_ms=55.0 * MINUTE
    ),
    SLOW,
    replace(SLOW, backlog=None, backlog_per_s=None, phase=None, phase_share=None, rows_in=None, emit_every_ms=None),
    HungBatch(**KNOWN, batch=214, age_ms=20 * MINUTE, usual_ms=None),
    STATE,
    replace(STATE, rows=None, before_rows=None, expected_windows=None, bytes=None, watermark=False),
]


def words(found: Diagnosis) -> str:
    return "\n".join([found.title, found.cost, *found.evidence, found.cause, *found.remedy])


def said(finding: Finding, snapshot: Any = None) -> Diagnosis:
    return told(finding, live() if snapshot is None else snapshot, UTC)


def test_every_rule_has_words() -> None:
    assert len({type(finding) for finding in EXAMPLES}) == len(RULES)
    assert set(HARMS) == set(get_args(Harm))


@pytest.mark.parametrize("finding", EXAMPLES, ids=lambda finding: type(finding).__name__)
@pytest.mark.parametrize("snapshot", [live(), attached(), canned.empty()], ids=["live", "attached", "empty"])
def test_each_says_what_it_is_what_it_costs_by_what_numbers_and_what_mends_it(finding: Finding, snapshot: Any) -> None:
    found = said(finding, snapshot)
    assert all((found.title, found.cost, found.evidence, found.cause, found.remedy))
    text = words(found)
    assert "None" not in text
    assert "_ms" not in text
    assert all(len(line) < 220 for line in text.splitlines())
    assert any(char.isdigit() for line in found.evidence for char in line)


@pytest.mark.parametrize("name", canned.HOSTILE)
def test_names_from_outside_are_only_text(name: str) -> None:
    for finding in EXAMPLES:
        if hasattr(finding, "channel") and getattr(finding, "channel") is not None:  # noqa: B009
            text = words(said(replace(finding, channel=name)))
            assert "\x1b" not in text
            assert "\t" not in text
            assert all(len(line) < 220 for line in text.splitlines())


def test_a_stuck_channel() -> None:
    found = said(STUCK)
    assert (found.key, found.title) == ("stuck-channel", "F9 is silent and holds the level")
    assert found.cost == "1 window (1,204 records) wait for it alone"
    assert found.evidence[0] == "its last record came 27m ago; nothing of it is unread"
    assert found.remedy[0] == "idle timeout 15m: the level gains 12m, 658 more records would have been late"
    assert found.wish == Wish(True, 15 * MINUTE)


def test_too_little_lateness() -> None:
    found = said(TOO_SMALL)
    assert found.cost == "2.5 % of the records are lost (5,000)"
    assert "over the last minutes 3.1 %" in found.evidence
    assert found.remedy == ["lateness 45m: 0.9 % late, results 15m later"]
    assert found.wish == Wish(False, 45 * MINUTE)


def test_in_somebody_elses_job_it_is_a_line_to_write() -> None:
    spark = SparkProgress(nodes=[WatermarkNode("ts", 30_000)])
    assert (
        said(TOO_SMALL, replace(attached(), spark=spark))
        .remedy[0]
        .startswith('lateness 45m, in the job: withWatermark("ts", "45 minutes")')
    )


def test_records_from_the_future() -> None:
    found = said(FUTURE)
    assert found.evidence[0] == "the last one: EV, offset 81,204 of flights-1"
    assert found.evidence[1] == "it claims to be from 2013-02-11 14:32:10 UTC"


def test_times_beyond_the_calendar() -> None:
    found = said(replace(UNIT, seen_ms=NOON * 1000, better="us"))
    assert found.evidence[0] == "the newest time reads the year 45,076"
    assert found.remedy == ["--time-unit us"]


def test_slow_batches_say_what_takes_the_time() -> None:
    found = said(SLOW)
    assert found.title == "batches do not keep up"
    assert "71.0 % of that is committing to the checkpoint" in found.evidence
    assert found.remedy[0].startswith("a faster checkpoint directory")
