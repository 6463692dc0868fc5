"""What tasks say of the columns of `--explain`: against counting in plain Python, and streams with planted causes."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from msgspec.structs import replace
from wmtop.engine.core.doctor.diagnose import diagnose
from wmtop.engine.core.doctor.explained import ClockSkew, LateCause
from wmtop.engine.core.explain import Explain, Focus, SeenValues
from wmtop.engine.core.explain_clocks import ClockOf, clock_offsets
from wmtop.engine.core.late_records import LateRecords, late_records
from wmtop.engine.core.monitor_state import new_monitor
from wmtop.engine.core.settings import Session, Settings, Sliding, Tumbling
from wmtop.engine.core.snapshot import Snapshot
from wmtop.engine.core.view import snapshot_of
from wmtop.engine.pipeline.batch_groups import observation_of
from wmtop.engine.pipeline.column_groups import column_groups
from wmtop.engine.pipeline.explain_columns import Explaining, seen_in, together
from wmtop.engine.pipeline.groups import levels_of, limits_of

EDGES = [0, 10, 50, 200]
WINDOWS = [
    Tumbling(size_ms=100),
    Sliding(size_ms=100, slide_ms=30),
    Sliding(size_ms=30, slide_ms=100),
    Session(gap_ms=50),
]


def late_by_hand(time: int, window: Any, late: LateRecords, allowed: int) -> bool:
    """Semantics 5, record by record."""
    if isinstance(window, Session):
        return time // window.gap_ms * window.gap_ms in (late.sessions or {})
    slide = window.slide_ms
    start = time // slide * slide
    last = start + window.size_ms - 1 if time < start + window.size_ms else time
    return late.records > 0 and last + allowed <= late.level


@given(st.data())
@hypothesis_settings(max_examples=60, deadline=None)
def test_counts_are_those_of_plain_python(data: st.DataObject) -> None:
    """Parts of a batch, put together: records, late ones and distances from W0 by value, and for each channel."""
    window = data.draw(st.sampled_from(WINDOWS))
    allowed = data.draw(st.sampled_from([0, 20]))
    texts = st.sampled_from([None, "", "a", "ä", "(none)", "x" * 300, "x" * 200])
    record = st.tuples(st.one_of(st.none(), st.integers(-300, 300)), st.sampled_from("pqr"), texts, texts)
    parts = data.draw(st.lists(st.lists(record, max_size=30), min_size=1, max_size=3))
    level = data.draw(st.integers(-100, 300))
    starts = data.draw(st.lists(st.integers(-6, 5), max_size=4))
    sessions = {start * 50: start * 50 + 100 for start in starts}
    late = LateRecords(len(sessions) if isinstance(window, Session) else 1, level, sessions)
    w0 = level + 40
    work = Explaining(
        Settings(window=window, allowed_lateness_ms=allowed), EDGES, w0, late, Focus([["a"], []], ["p", "r", "s"])
    )
    seen = together([seen_in(table(rows), work) for rows in parts], 2)
    usable = [(row[0], *row[1:]) for rows in parts for row in rows if row[0] is not None]
    for column in (0, 1):
        expected, behind = Counter[tuple[str, bool]](), Counter[tuple[str, int]]()
        inside = Counter[tuple[str, str, bool]]()
        for time, channel, *values in usable:
            value = values[column]
            name = "(none)" if value is None else value[:200]
            is_late = late_by_hand(time, window, late, allowed)
            expected[name, is_late] += 1
            inside[channel, name, is_late] += 1
            if w0 - time >= 0:
                behind[name, max(n for n, edge in enumerate(EDGES) if edge <= w0 - time)] += 1
        mine = [value for value in seen.values if value.column == column]
        assert {v.value: (v.records, v.late) for v in mine} == {
            name: (expected[name, True] + expected[name, False], expected[name, True]) for name, _ in expected
        }
        assert {(v.value, bucket): n for v in mine for bucket, n in (v.behind or {}).items()} == dict(behind)
        for channel in "pr":
            of = seen.channels.get(channel)
            found = [] if of is None else [v for v in of.seen.values if v.column == column]
            there = {name for each, name, _ in inside if each == channel}
            assert {v.value: (v.records, v.late) for v in found} == {
                name: (inside[channel, name, True] + inside[channel, name, False], inside[channel, name, True])
                for name in there
            }
    assert set(seen.channels) <= {"p", "r"}
    assert seen.unreported == [0, 0]


def table(rows: list[Any]) -> pa.Table:
    times, channels, *columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], []]
    return pa.table(
        {
            "ts": pa.array(times, pa.int64()),
            "channel": pa.array(channels, pa.string()).dictionary_encode(),
            **{f"explain{number}": pa.array(values, pa.string()) for number, values in enumerate(columns)},
        }
    )


def test_values_beyond_what_is_reported_have_a_bound() -> None:
    """5,000 values: those that are left out have no more records than is said, and what is left out adds up."""
    r = random.Random(2)
    rows = [(n, "p", f"v{r.randrange(5_000)}", None) for n in range(40_000)]
    late = LateRecords(1, 500, {})
    work = Explaining(Settings(window=Tumbling(size_ms=100)), [], 0, late, Focus([[], []], None))
    seen = together([seen_in(table(rows[:20_000]), work), seen_in(table(rows[20_000:]), work)], 2)
    records = Counter(row[2] for row in rows)
    reported = {value.value: value for value in seen.values if value.column == 0}
    assert len(reported) == 2_000
    assert all(records[name] <= seen.unreported[0] for name in records.keys() - reported.keys())
    assert all(0 <= records[name] - value.records <= value.missed for name, value in reported.items())
    late_names = {row[2] for row in rows if row[0] < 501 // 100 * 100}
    assert late_names <= reported.keys()


N, HOUR, MINUTE = 40_000, 3_600_000, 60_000
START = 1_767_225_600_000
Planted = tuple[Any, dict[str, Any]]


def planted(cause: str) -> Snapshot:
    """Two hours of 12 batches through the monitor, one hundredth late whatever the columns are, and a cause."""
    r = np.random.default_rng(len(cause))
    arrival = START + np.sort(r.integers(0, 2 * HOUR, N))
    delay = np.where(r.random(N) < 0.01, r.integers(10, 25, N) * MINUTE, r.exponential(20_000, N)).astype(np.int64)
    shift = np.zeros(N, np.int64)
    fw = r.choice(["4.0", "4.2", "日本", None], N, p=[0.7, 0.06, 0.2, 0.04])
    producer = r.choice([f"p{n}" for n in range(8)], N)
    channel = r.choice([f"c{n}" for n in range(4)], N)
    site = np.array([f"s{n}" for n in r.integers(0, 3_000, N)], object)
    hot = r.random(N) < 0.005
    site[hot] = "hot"
    slow = {
        "version": fw == "4.2", "null": fw == None, "unicode": (fw == "日本") & (r.random(N) < 0.2),  # noqa: E711
        "from the middle": (fw == "4.2") & (arrival > START + 80 * MINUTE),
        "one channel": (fw == "4.2") & (channel == "c2"), "rare": hot, "delivery": producer == "p3",
    }.get(cause, np.zeros(N, np.bool_))  # fmt: skip
    delay[slow] = r.integers(0 if cause == "delivery" else 15, 50, slow.sum()) * MINUTE
    off = producer == "p3"
    shift[off] = {
        "an hour behind": -HOUR, "an hour ahead": HOUR, "+5:30": 11 * HOUR // 2,
        "drift": -(arrival[off] - START) // 60, "drift ahead": (arrival[off] - START) // 60,
    }.get(cause, 0)  # fmt: skip
    rows = pa.table(
        {
            "ts": arrival - delay + shift,
            "arrival": arrival,
            "channel": pa.array(channel).dictionary_encode(),
            **{f"explain{n}": pa.array(values, pa.string()) for n, values in enumerate((fw, producer, site))},
        }
    )
    monitor = new_monitor(Settings(strategy="bounded", lateness_ms=5 * MINUTE, window=Tumbling(size_ms=10 * MINUTE)))
    monitor.explain = Explain.of(["fw", "producer", "site"])
    for number in range(12):
        part = rows.slice(number * N // 12, N // 12).combine_chunks()
        levels = levels_of(monitor, None)
        groups = column_groups(part, monitor.settings, monitor.edges, levels)
        observation = observation_of(groups, number, levels, [])
        late = late_records(monitor.operator.windows, observation.groups, levels.level)
        work = Explaining(
            monitor.settings, monitor.edges, limits_of(monitor.settings, levels).w0, late, monitor.explain.focus()
        )
        halves = [seen_in(part.slice(0, 2_000), work), seen_in(part.slice(2_000), work)]
        monitor.apply(replace(observation, values=together(halves, 3), late=late.records))
    return snapshot_of(monitor, name="x", state="live", wall_ms=0)


def named(snapshot: Snapshot) -> set[tuple[str, str]]:
    """What is called a cause: the values that are sure, and the clocks."""
    columns = snapshot.explain or []
    sure = {(column.column, value.value) for column in columns for value in column.values if value.sure}
    return sure | {(column.column, it.value) for column in columns for it in column.offsets if it.stable}


CAUSES = {
    "version": ("fw", "4.2"), "null": ("fw", "(none)"), "unicode": ("fw", "日本"), "from the middle": ("fw", "4.2"),
    "one channel": ("fw", "4.2"), "rare": ("site", "hot"), "delivery": ("producer", "p3"),
}  # fmt: skip
CLOCKS = {"an hour behind": HOUR, "an hour ahead": -HOUR, "+5:30": -11 * HOUR // 2, "drift": None, "drift ahead": None}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_is_named_and_nothing_else(cause: str) -> None:
    snapshot = planted(cause)
    assert named(snapshot) == {CAUSES[cause]}
    column = (snapshot.explain or [])[0]
    assert column.column == CAUSES[cause][0]
    assert column.values[0].value == CAUSES[cause][1]
    assert column.values[0].behind_of is None or sum(column.values[0].behind or ()) > 0
    inside = {channel.channel: [v.value for v in channel.values if v.sure] for channel in column.channels}
    if cause == "one channel":
        assert {name for name, values in inside.items() if values} == {"c2"}
    if cause != "rare":
        found = [it for it in diagnose(snapshot, []) if isinstance(it, LateCause)]
        assert [(it.column, it.value) for it in found] == [CAUSES[cause]]


@pytest.mark.parametrize("cause", CLOCKS)
def test_a_clock_that_is_off_is_named_and_nothing_else(cause: str) -> None:
    snapshot = planted(cause)
    assert named(snapshot) == {("producer", "p3")}
    assert next(column.column for column in snapshot.explain or ()) == "producer"
    [skew] = [it for it in diagnose(snapshot, []) if isinstance(it, ClockSkew)]
    assert (skew.column, skew.value, skew.zone_ms) == ("producer", "p3", CLOCKS[cause])
    if CLOCKS[cause] is None:
        assert skew.drift_ms_per_hour is not None
        assert abs(abs(skew.drift_ms_per_hour) - MINUTE) < 5_000
    else:
        assert skew.drift_ms_per_hour is None
        assert abs(skew.offset_ms - (CLOCKS[cause] or 0)) < 5_000


def test_nobody_is_named_where_lateness_depends_on_no_column() -> None:
    snapshot = planted("nothing")
    assert (snapshot.totals.late or 0) > 200
    assert named(snapshot) == set()
    assert not [it for it in diagnose(snapshot, []) if isinstance(it, ClockSkew | LateCause)]


def test_nothing_is_seen_in_no_records() -> None:
    work = Explaining(Settings(), EDGES, 0, LateRecords(0, 0), Focus([[]], None))
    assert seen_in(table([])[:0], work) == SeenValues([], [0], {})


@pytest.mark.parametrize("wrong", ["payload", "stamp, too"])
@pytest.mark.parametrize("alone", [True, False])
def test_a_clock_that_is_off_in_partitions_with_producers_of_their_own(alone: bool, wrong: str) -> None:
    """As Kafka partitions by key: one producer, or three, of which one is an hour ahead, have a partition of their own.

    A producer that stamps its records wrong, too, and has a partition alone, cannot be told from one that is right.
    """
    r = np.random.default_rng(8)
    clocks = {f"eu-{n}": ClockOf() for n in range(12)}
    for batch in range(5):
        reports: list[SeenValues] = []
        for partition in range(4):
            names = [f"eu-{n}" for n in ([partition] if alone else [partition, partition + 4, partition + 8])]
            # Partitions are read at different places.
            sent = START + (batch * 30 + partition * 45) * MINUTE + np.sort(r.integers(0, 30 * MINUTE, 1_500))
            producer = r.choice(names, 1_500)
            shift = np.where(producer == "eu-3", HOUR, 0)
            rows = pa.table(
                {
                    "ts": sent - r.exponential(5_000, 1_500).astype(np.int64) + shift,
                    "stamped": sent + (shift if wrong == "stamp, too" else 0),
                    "channel": pa.array([str(partition)] * 1_500).dictionary_encode(),
                    "explain0": pa.array(producer, pa.string()),
                }
            )
            work = Explaining(Settings(), [], 0, LateRecords(0, 0), Focus([[]], []))
            reports.append(seen_in(rows, work))
        for value in together(reports, 1).values:
            for point in value.delays:
                clocks[value.value].add(point)
    found = clock_offsets({name: (1_500, clock) for name, clock in clocks.items() if clock.weight})
    stable = [it for it in found if it.stable]
    assert [it.value for it in stable] == ([] if alone and wrong == "stamp, too" else ["eu-3"])
    slack = 3 * MINUTE if wrong == "stamp, too" else 5_000
    assert all(abs(it.offset_ms + HOUR) < slack for it in stable)
