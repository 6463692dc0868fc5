"""Each rule about channels: a case where it must speak, and its neighbours where it must not."""

from datetime import UTC

import pytest
from msgspec import structs
from wmtop.engine.doctor import accounts_for
from wmtop.engine.snapshot import (
    ChannelView,
    Level,
    OpenWindow,
    Snapshot,
    SourceView,
    SparkProgress,
    Totals,
    WhatIfIdle,
    Windows,
)
from wmtop.engine.text.formatting import duration, second
from wmtop.engine.watermarks.settings import Settings

from tests.snapshots import replace

from .patients import (
    DAY,
    HOUR,
    IDLE,
    MINUTE,
    NOW,
    SCALE,
    SECOND,
    SETTINGS,
    WINDOW,
    before,
    channel,
    found,
    healthy,
    holding,
    said,
)
from .streams import Stream, traffic

NO_TIMEOUT = replace(SETTINGS, idle_after_ms=None)


def silent(quiet_ms: int, settings: Settings = NO_TIMEOUT, **more: object) -> Snapshot:
    """Partition d has sent nothing for so long, and holds everybody."""
    views = [channel("a"), channel("b", 300), channel("c", 900), channel("d", quiet_ms, quiet_ms=quiet_ms, rate=0.0)]
    level = views[3].watermark_ms
    assert level is not None
    start = level - level % WINDOW
    waiting = [
        OpenWindow(start + n * WINDOW, start + (n + 1) * WINDOW, 900, "d", (n + 1) * WINDOW)
        for n in range(min(quiet_ms // WINDOW, 200))
    ]
    rungs = [
        WhatIfIdle(MINUTE, level + quiet_ms - 3 * SECOND, "c", 4, 950),
        WhatIfIdle(12 * HOUR, level, "d", 0, 800),
        WhatIfIdle(None, level, "d", 0, 800),
    ]
    windows = Windows(open=waiting, open_count=len(waiting), open_records=900 * len(waiting), fired=9)
    snapshot = healthy(views, settings=settings, windows=windows, whatif_idle=rungs, **more)
    return holding(snapshot, "d", "quiet", quiet_ms)


def test_a_channel_that_has_gone_silent_without_an_idle_timeout_stops_the_results() -> None:
    finding = found(silent(10 * MINUTE))["silent-channels"]
    assert (finding.severity, finding.channels) == ("critical", ("d",))
    assert finding.impact == "60 windows (54,000 records) wait"
    assert finding.title.endswith("no data for 10m")
    assert "Holding it back for 10m\n9m59s to the next channel" in said(finding)
    assert (finding.size, finding.windows, finding.blames) == (10 * MINUTE - 900, 60, "quiet")
    fix = finding.fixes[0]
    assert (fix.code, fix.value_ms) == ("set-idle-timeout", MINUTE)
    assert (fix.gain_ms, fix.price) == (10 * MINUTE - 3 * SECOND, "0.5 % late")


def _unseen() -> ChannelView:
    return channel("d", watermark_ms=None, max_event_ms=None, state="never_seen", quiet_ms=10 * MINUTE)


def test_a_partition_that_never_had_a_record_stops_everything() -> None:
    views = [
        channel("a"),
        channel("b"),
        channel("d", watermark_ms=None, max_event_ms=None, state="never_seen", quiet_ms=10 * MINUTE),
    ]
    snapshot = healthy(views, settings=NO_TIMEOUT, windows=Windows(), whatif_idle=None)
    snapshot = holding(replace(snapshot, level=Level()), "d", "never_seen", 10 * MINUTE)
    finding = found(snapshot)["silent-channels"]
    assert (finding.blames, finding.impact, finding.fixes[0].code) == (
        "never_seen",
        "No results yet",
        "add-idle-timeout",
    )


@pytest.mark.parametrize(
    "snapshot",
    [
        silent(20 * SECOND),  # a pause
        silent(4 * MINUTE, replace(SETTINGS, lateness_ms=5 * MINUTE)),  # shorter than a result takes anyway
        holding(silent(10 * MINUTE), "d", "backlog", 10 * MINUTE),  # there is something to read: not silent
        holding(silent(10 * MINUTE), "d", "paused", 10 * MINUTE),
        replace(silent(10 * MINUTE), ended=True, state="ended"),
        holding(healthy(), "d", "quiet", 10 * MINUTE),  # nobody is ahead of it
    ],
)  # fmt: skip
def test_a_pause_is_not_silence(snapshot: Snapshot) -> None:
    assert "silent-channels" not in found(snapshot)


def test_with_an_idle_timeout_a_channel_is_let_go_in_time() -> None:
    assert "silent-channels" not in found(silent(25 * SECOND, SETTINGS))
    late = found(silent(4 * MINUTE, replace(SETTINGS, idle_after_ms=2 * HOUR)))["silent-channels"]
    assert late.severity == "warning"


def everybody_quiet(quiet_ms: int, idle_after_ms: int | None = IDLE, **more: object) -> Snapshot:
    state = "idle" if idle_after_ms and quiet_ms > idle_after_ms else "active"
    views = [channel(name, quiet_ms, quiet_ms=quiet_ms, rate=0.0, state=state) for name in "abcd"]
    level = Level(views[0].watermark_ms, 0, quiet_ms, idle=state == "idle")
    end = (views[0].watermark_ms or 0) // WINDOW * WINDOW + WINDOW
    windows = Windows(open=[OpenWindow(end - WINDOW, end, 40, None, 4_000)], open_count=1, open_records=40, fired=9)
    settings = replace(SETTINGS, idle_after_ms=idle_after_ms)
    return healthy(views, **({"level": level, "windows": windows, "settings": settings} | more))


@pytest.mark.parametrize("idle_after_ms", [None, IDLE])
def test_the_last_window_of_a_stream_that_has_gone_quiet_never_closes(idle_after_ms: int | None) -> None:
    finding = found(everybody_quiet(20 * MINUTE, idle_after_ms))["no-data"]
    assert finding.title.endswith("no record for 20m")
    assert finding.impact == "1 window (40 records) cannot fire until new data arrives"
    snapshot = everybody_quiet(20 * MINUTE)
    end_ms = snapshot.windows.open[0].end_ms
    short = duration(end_ms - 1 - (snapshot.level.watermark_ms or 0))
    assert f"The window until {second(end_ms, UTC)} is {short} of event time short" in said(finding)


@pytest.mark.parametrize(
    "snapshot",
    [
        healthy(),
        everybody_quiet(3 * MINUTE),  # the timeout has not even passed
        everybody_quiet(20 * MINUTE, source=SourceView("replay", "file")),  # the end fires what is open
        everybody_quiet(20 * MINUTE, state="paused"),
        everybody_quiet(20 * MINUTE, ended=True),
    ],
)
def test_a_window_that_will_close_is_not_reported(snapshot: Snapshot) -> None:
    assert "no-data" not in found(snapshot)


def test_without_an_open_window_it_is_only_worth_knowing() -> None:
    assert found(everybody_quiet(20 * MINUTE, windows=Windows(fired=9)))["no-data"].severity == "info"


def test_one_channel_that_sends_closes_the_last_window() -> None:
    snapshot = everybody_quiet(20 * MINUTE)
    assert "no-data" not in found(replace(snapshot, channels=[*snapshot.channels, channel("e")]))


def flapping(flaps: int, round_ms: int, late: int = 0) -> Snapshot:
    return healthy([channel("a"), channel("b"), channel("d", flaps=flaps, round_ms=round_ms, late=late)])


def test_a_channel_that_idles_and_wakes_all_the_time_flaps() -> None:
    finding = found(flapping(40, 6 * MINUTE))["flapping-idleness"]
    assert (finding.severity, finding.channels, finding.size) == ("info", ("d",), 40)
    assert ("Idle every 6m" in said(finding), finding.fixes[0].value_ms) == (True, 2 * HOUR)


def test_flapping_reports_what_it_loses() -> None:
    finding = found(flapping(40, 6 * MINUTE, late=2_000))["flapping-idleness"]
    assert (finding.severity, finding.size) == ("warning", 2_000 / 200_000)


@pytest.mark.parametrize(("flaps", "round_ms"), [(40, DAY), (4, 6 * MINUTE), (40, None)])
def test_a_nightly_pause_is_no_flapping(flaps: int, round_ms: int) -> None:
    assert "flapping-idleness" not in found(flapping(flaps, round_ms))


def returning(late: int, late_with_longer: int, others_late: int = 40) -> Snapshot:
    views = [
        *(channel(name, late=others_late, records=60_000) for name in "abc"),
        channel("d", late=late, records=20_000, flaps=12, round_ms=HOUR),
    ]
    level = views[0].watermark_ms
    assert level is not None
    own = late + 3 * others_late
    rungs = [
        WhatIfIdle(IDLE, level, "a", 12, own),
        WhatIfIdle(2 * HOUR, level - 4 * MINUTE, "d", 0, late_with_longer),
        WhatIfIdle(None, level - 4 * MINUTE, "d", 0, late_with_longer),
    ]
    return healthy(views, whatif_idle=rungs, totals=Totals(records=200_000, late=own))


def test_a_channel_whose_records_are_late_because_it_was_idle() -> None:
    finding = found(returning(3_000, 200))["late-after-idle"]
    assert finding.channels == ("d",)
    assert "15.0 % of the records of these channels are late (3,000)" in said(finding)
    assert "With the idle timeout of 2h, 2,920 fewer" in said(finding)
    assert finding.fixes[0].gain_ms == -4 * MINUTE
    assert finding.size == 2_920 / 200_000


@pytest.mark.parametrize(
    "snapshot",
    [
        returning(3_000, 2_900),  # a longer timeout does not help: it is the lateness
        returning(3_000, 200, others_late=4_000),  # the others are as late
        returning(12, 0),  # a few
        replace(returning(3_000, 200), whatif_idle=None),  # nobody knows what another timeout would give
    ],
)
def test_late_for_another_reason_is_not_blamed_on_idleness(snapshot: Snapshot) -> None:
    assert "late-after-idle" not in found(snapshot)


def skewed(behind_ms: int, cause: str = "behind") -> Snapshot:
    views = [channel("a"), channel("b", 2_000), channel("c", 1_000), channel("d", behind_ms, backlog=70_000)]
    return holding(healthy(views), "d", cause, 3 * MINUTE)  # type: ignore[arg-type]


@pytest.mark.parametrize("cause", ["behind", "backlog"])
def test_a_channel_far_behind_the_others_is_skew(cause: str) -> None:
    finding = found(skewed(9 * MINUTE, cause))["lagging-channels"]
    assert (finding.channels[0], finding.size) == ("d", 9 * MINUTE)
    assert "d receives 90 records/s\nBacklog of d: 70,000 records" in said(finding)
    assert [fix.code for fix in finding.fixes][:2] == ["set-max-drift", "add-readers"]


def test_skew_must_last() -> None:
    snapshot = skewed(9 * MINUTE)
    assert "lagging-channels" not in found(
        snapshot, before(snapshot, behind_fastest_ms=lambda ago: 9 * MINUTE if ago < 20 else 4_000)
    )
    assert "lagging-channels" not in found(snapshot, [])


@pytest.mark.parametrize(
    "snapshot", [healthy(), skewed(2 * SCALE - 1), holding(skewed(9 * MINUTE), "d", "held_back", MINUTE)]
)
def test_a_little_skew_is_normal(snapshot: Snapshot) -> None:
    assert "lagging-channels" not in found(snapshot)


def spark(behind_ms: int, late: int | None = 30_000, **more: object) -> Snapshot:
    views = [channel("a"), channel("d", behind_ms, late=late, records=50_000, **more)]
    level = Level(views[0].watermark_ms, 0, 7_000)
    return healthy(views, settings=replace(SETTINGS, strategy="spark"), level=level, whatif_idle=[])


def test_with_sparks_one_clock_the_slow_channel_loses_everything() -> None:
    finding = found(spark(3 * MINUTE))["left-behind"]
    assert (finding.severity, finding.channels) == ("critical", ("d",))
    assert finding.impact == "30,000 records of these channels late so far"
    assert "of d is 2m55s behind the watermark" in said(finding)


def test_of_an_attached_query_it_must_be_sending_now() -> None:
    watched = replace(spark(3 * MINUTE, late=None), origin={"level": "checkpoint"}, totals=Totals(None, None, None))
    assert found(watched)["left-behind"].impact == "All records of 1 channel are dropped"
    quiet = replace(spark(3 * MINUTE, late=None, quiet_ms=3 * MINUTE), origin={"level": "checkpoint"})
    assert "left-behind" not in found(quiet)


def test_left_behind_goes_by_the_watermark_that_late_records_are_compared_with() -> None:
    """The watermark of the next batch has passed the channel; that of the last one has not, so its records are kept."""
    ahead = spark(3 * MINUTE)
    before_ms = (ahead.level.watermark_ms or 0) - 3 * MINUTE
    progress = SparkProgress(watermark_ms=ahead.level.watermark_ms, batch_watermark_ms=before_ms)
    assert "left-behind" not in found(replace(ahead, spark=progress))
    passed = SparkProgress(watermark_ms=ahead.level.watermark_ms, batch_watermark_ms=ahead.level.watermark_ms)
    assert "left-behind" in found(replace(ahead, spark=passed))
    assert "left-behind" not in found(replace(ahead, spark=structs.replace(passed, slowest_clock=True)))


@pytest.mark.parametrize("snapshot", [spark(8 * SECOND), spark(3 * MINUTE, late=100), skewed(9 * MINUTE)])
def test_a_channel_that_keeps_up_or_was_quiet_is_not_left_behind(snapshot: Snapshot) -> None:
    assert "left-behind" not in found(snapshot)


def test_an_attached_query_without_channels_has_no_findings_about_them() -> None:
    snapshot = healthy([], level=Level(NOW - 9_000, None, 9_000), windows=Windows(open_count=None, fired=None))
    assert found(snapshot) == {}


def test_a_longer_timeout_that_gives_nearly_all_is_chosen() -> None:
    """Which channels have been silent for long enough changes from batch to batch: the fix does not."""
    snapshot = silent(HOUR)
    level, fastest = snapshot.level.watermark_ms or 0, (snapshot.level.behind_fastest_ms or 0)
    rows = [
        WhatIfIdle(MINUTE, level + fastest, "a", 90, 9_000),
        WhatIfIdle(20 * MINUTE, level + fastest - SECOND, "d", 0, 800),
        WhatIfIdle(None, level, "d", 0, 800),
    ]
    finding = found(replace(snapshot, whatif_idle=rows))["silent-channels"]
    assert finding.fixes[0].value_ms == 20 * MINUTE
    far = [rows[0], replace(rows[1], watermark_ms=level + fastest // 2), rows[2]]
    assert found(replace(snapshot, whatif_idle=far))["silent-channels"].fixes[0].value_ms == MINUTE


def test_a_raised_lateness_explains_only_so_much() -> None:
    """A channel has been dead for hours; that lateness was raised by minutes before does not hold the watermark."""
    dead = Stream(NO_TIMEOUT).run(120, traffic("ab")).change(lateness_ms=2 * MINUTE).run(900, traffic("a"))
    [finding] = dead.findings()
    assert finding.code == "silent-channels"
    assert accounts_for(finding, dead.published[-1].verdict.verdict)
    raised = Stream(NO_TIMEOUT).run(120, traffic("ab")).change(lateness_ms=2 * MINUTE).run(80, traffic("ab"))
    assert [one.code for one in raised.findings()] == ["frozen-by-lateness"]
    assert raised.published[-1].verdict.verdict == "waiting"
    assert raised.run(60, traffic("ab")).findings() == []
    assert raised.published[-1].verdict.verdict == "moving"


def test_a_stall_that_is_over_is_no_finding() -> None:
    stream = Stream(NO_TIMEOUT).run(120, traffic("ab")).run(200, traffic("a"))
    assert [(one.code, one.severity) for one in stream.findings()] == [("silent-channels", "critical")]
    assert stream.published[-1].verdict.verdict == "stalled"
    assert stream.run(1, traffic("ab")).findings() == []
    assert stream.published[-1].verdict.verdict == "moving"
