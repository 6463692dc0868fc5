"""The alert rule: what is alerted, and how quiet it stays while things flap."""

import itertools
import json
from collections.abc import Iterable

from msgspec.structs import replace
from wmtop.engine.snapshot import VerdictName
from wmtop.engine.verdict.alerts import (
    BURST_LEAST,
    QUIET_MS,
    UNKNOWN_MS,
    AlertRule,
    EngineBack,
    EngineLost,
    Event,
    LateBurst,
    LateBurstEnded,
    VerdictChanged,
    as_json,
)
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.tui.words.history import EventLog

WALL = 1_700_000_000_000
SECOND, MINUTE = 1_000, 60_000


def point(at_ms: int, verdict: VerdictName | None = None, *, records: int = 0, late: int = 0) -> HistoryPoint:
    return HistoryPoint(
        now_ms=at_ms * 600, watermark_ms=0, behind_fastest_ms=MINUTE, holder="a", records=records, late=late,
        wall_ms=WALL + at_ms, cause="quiet", verdict=verdict,
    )  # fmt: skip


def run(points: Iterable[HistoryPoint]) -> list[Event]:
    rule = AlertRule()
    return [event for each in points for event in rule.see(each)]


def verdicts(*turns: tuple[int, VerdictName]) -> list[HistoryPoint]:
    """A point a second: each verdict for so many seconds."""
    names = [name for seconds, name in turns for _ in range(seconds)]
    return [point(place * SECOND, name) for place, name in enumerate(names)]


def alerts(events: Iterable[Event]) -> list[tuple[int, str | None]]:
    """When (s) which verdict was alerted."""
    return [
        ((event.wall_ms - WALL) // SECOND, event.verdict)
        for event in events
        if isinstance(event, VerdictChanged) and event.alert
    ]


def test_a_change_of_verdict_and_the_recovery_are_alerts() -> None:
    events = run(verdicts((30, "unknown"), (60, "moving"), (300, "stalled"), (60, "moving")))
    assert alerts(events) == [(90, "stalled"), (390, "moving")]
    stalled = next(event for event in events if event.alert)
    assert (stalled.now_ms, stalled.code) == (90 * SECOND * 600, "verdict_changed")
    assert isinstance(stalled, VerdictChanged)
    assert (stalled.before, stalled.channel, stalled.cause) == ("moving", "a", "quiet")


def test_a_good_start_is_no_alert_and_a_bad_one_is() -> None:
    assert alerts(run(verdicts((60, "unknown"), (60, "waiting")))) == []
    assert alerts(run(verdicts((60, "unknown"), (60, "stalled")))) == [(60, "stalled")]


def test_while_it_flaps_no_two_alerts_are_closer_than_the_bound() -> None:
    turns: list[tuple[int, VerdictName]] = [(60, "moving")]
    for _ in range(40):
        turns += [(15, "stalled"), (16, "moving")]
    events = run(verdicts(*turns))
    times = [at for at, _ in alerts(events)]
    assert len(times) > 3
    assert all((b - a) * SECOND >= QUIET_MS for a, b in itertools.pairwise(times))
    assert sum(isinstance(event, VerdictChanged) for event in events) >= 80  # the list has each change


def test_what_is_so_in_the_end_is_alerted_when_the_quiet_is_over() -> None:
    events = run(verdicts((60, "moving"), (20, "stalled"), (20, "moving"), (300, "stalled")))
    assert alerts(events) == [(60, "stalled")]  # known already: nothing is new
    events = run(verdicts((60, "moving"), (20, "stalled"), (300, "moving")))
    assert alerts(events) == [(60, "stalled"), (60 + QUIET_MS // SECOND, "moving")]


def test_unknown_is_alerted_once_it_has_lasted() -> None:
    short = UNKNOWN_MS // SECOND - 1
    assert alerts(run(verdicts((60, "moving"), (short, "unknown"), (60, "moving")))) == []
    assert alerts(run(verdicts((60, "moving"), (60, "unknown")))) == [(60 + UNKNOWN_MS // SECOND, "unknown")]


def test_a_run_that_is_not_judged_has_no_verdicts() -> None:
    assert run(point(n * SECOND) for n in range(300)) == []


def flow(*minutes: tuple[int, int]) -> list[HistoryPoint]:
    """A point a second: so many records and late ones in each minute."""
    records = late = 0
    out: list[HistoryPoint] = []
    for number, (came, lates) in enumerate(minutes):
        out += [
            point(number * MINUTE + s * SECOND, records=records + came * s // 60, late=late + lates * s // 60)
            for s in range(60)
        ]
        records, late = records + came, late + lates
    return out


def bursts(events: Iterable[Event]) -> list[type[Event]]:
    return [type(event) for event in events if isinstance(event, LateBurst | LateBurstEnded)]


def test_a_burst_begins_and_ends() -> None:
    events = run(flow(*[(6_000, 6)] * 5, (6_000, 600), *[(6_000, 6)] * 5))
    assert bursts(events) == [LateBurst, LateBurstEnded, LateBurstEnded]  # the end, and its alert after the quiet
    assert [event.alert for event in events] == [True, False, True]
    began = next(event for event in events if isinstance(event, LateBurst))
    assert began.alert
    assert began.late >= BURST_LEAST
    assert began.share >= 3 * began.usual


def test_a_steady_late_share_is_no_burst() -> None:
    assert bursts(run(flow(*[(6_000, 600)] * 10))) == []


def test_a_few_late_records_are_no_burst() -> None:
    assert bursts(run(flow(*[(60, 0)] * 5, (60, BURST_LEAST - 1), *[(60, 0)] * 3))) == []


def test_without_a_time_before_there_is_no_burst() -> None:
    assert bursts(run(flow((100, 0), (60_000, 30_000), (60_000, 30_000)))) == []


def test_bursts_that_come_and_go_are_quiet() -> None:
    minutes = [(6_000, 6)] * 10 + [(6_000, 1_500), (6_000, 0)] * 4 + [(6_000, 0)] * 4
    raised = [event.wall_ms for event in run(flow(*minutes)) if event.alert]
    assert raised
    assert all(b - a >= QUIET_MS for a, b in itertools.pairwise(raised))


def test_a_lost_engine_is_alerted_once_and_so_is_its_return() -> None:
    rule = AlertRule()
    for each in verdicts((60, "moving")):
        rule.see(each)
    lost = rule.lose(WALL + 70 * SECOND, "killed")
    assert [(type(event), event.alert) for event in lost] == [(EngineLost, True)]
    assert rule.lose(WALL + 71 * SECOND, "killed") == []
    assert rule.verdict == "unknown"
    back = [event for n in range(75, 400) for event in rule.see(point(n * SECOND, "moving"))]
    assert [type(event) for event in back] == [EngineBack, EngineBack]  # the event, then the alert
    assert [(event.wall_ms - WALL) // SECOND for event in back if event.alert] == [70 + QUIET_MS // SECOND]


def test_a_return_is_not_older_than_the_loss_it_ends() -> None:
    """The first snapshot after it may have waited on its way."""
    log = EventLog([point(0, "moving")])
    log.lose(WALL + 23 * SECOND, silent_ms=23 * SECOND)
    log.see(point(2 * SECOND, "moving"))
    assert [type(event) for event in log.events()] == [EngineLost, EngineBack]


def test_a_second_loss_waits_for_its_alert() -> None:
    rule = AlertRule()
    rule.see(point(0, "moving"))
    rule.lose(WALL + SECOND)
    back = QUIET_MS + SECOND
    assert [event.alert for event in rule.see(point(back, "moving"))] == [True]
    assert [event.alert for event in rule.lose(WALL + back + SECOND)] == [False]
    raised = [event for n in range(400) for event in rule.lose(WALL + back + n * SECOND)]
    assert [event.wall_ms - WALL for event in raised] == [back + QUIET_MS]


def test_the_loss_is_alerted_and_not_its_verdict() -> None:
    rule = AlertRule()
    for each in verdicts((60, "moving")):
        rule.see(each)
    rule.lose(WALL + 61 * SECOND)
    after = [event for n in range(62, 600) for event in rule.see(point(n * SECOND, "unknown"))]
    assert not [event for event in after if isinstance(event, VerdictChanged) and event.alert]


def test_another_run_begins_again() -> None:
    first = verdicts((60, "moving"), (60, "stalled"))
    again = [replace(each, wall_ms=each.wall_ms - MINUTE) for each in verdicts((60, "moving"))]
    assert alerts(run([*first, *again])) == [(60, "stalled")]


def test_a_point_that_was_overtaken_changes_nothing() -> None:
    points = verdicts((60, "moving"), (60, "stalled"))
    late = replace(points[-1], wall_ms=points[-1].wall_ms - 300, verdict="moving")
    rule = AlertRule()
    assert alerts(event for each in points for event in rule.see(each)) == [(60, "stalled")]
    assert rule.see(late) == []
    assert rule.verdict == "stalled"


def test_a_command_gets_the_facts() -> None:
    event = VerdictChanged(wall_ms=5, now_ms=7, alert=True, verdict="stalled", before="moving", channel="F9")
    assert json.loads(as_json(event, "flights", "stalled")) == {
        "wall_ms": 5,
        "target": "flights",
        "code": "verdict_changed",
        "verdict": "stalled",
        "args": {
            "now_ms": 7,
            "delayed": False,
            "verdict": "stalled",
            "before": "moving",
            "channel": "F9",
            "cause": None,
            "reason": None,
        },
    }


def test_a_raised_lateness_blames_no_channel() -> None:
    past = verdicts((60, "moving"), (90, "waiting"))
    [raised] = run(replace(each, cause="lateness_raised") for each in past)
    assert isinstance(raised, VerdictChanged)
    assert (raised.verdict, raised.channel, raised.cause) == ("waiting", None, "lateness_raised")
    [lagging] = run(replace(each, cause="behind") for each in past)
    assert isinstance(lagging, VerdictChanged)
    assert (lagging.channel, lagging.cause) == ("a", "behind")


def test_alerts_are_twice_their_patience_apart() -> None:
    """In processing time: a replay at 600 passes 10 minutes in a second."""
    turns: list[tuple[int, VerdictName]] = [(60, "moving"), *[(15, "stalled"), (16, "moving")] * 40]
    patience = 90 * SECOND * 600
    events = run(replace(each, patience_ms=patience) for each in verdicts(*turns))
    times = [at for at, _ in alerts(events)]
    assert len(times) > 3
    assert all((b - a) * SECOND * 600 >= 2 * patience for a, b in itertools.pairwise(times))
