"""The values of the `--explain` columns: against counting in plain Python, and streams with planted causes."""

import random
from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from wmtop.engine.doctor import diagnose
from wmtop.engine.doctor.lateness import late_cause_of
from wmtop.engine.run.column_groups import column_groups
from wmtop.engine.run.groups import Levels, observation_of
from wmtop.engine.run.observe import Explaining, values_of
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.explain import MAX_VALUES, Explain, Values, merged
from wmtop.engine.watermarks.monitor import new_monitor
from wmtop.engine.watermarks.settings import Session, Settings, Sliding, Tumbling
from wmtop.engine.watermarks.window_operator import LateRecords, late_records

from tests.snapshots import replace

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
    """Parts of a batch, put together: late and all records by value."""
    window = data.draw(st.sampled_from(WINDOWS))
    allowed = data.draw(st.sampled_from([0, 20]))
    texts = st.sampled_from([None, "", "a", "ä", "(none)", "x" * 300, "x" * 200])
    record = st.tuples(st.one_of(st.none(), st.integers(-300, 300)), texts, texts)
    parts = data.draw(st.lists(st.lists(record, max_size=30), min_size=1, max_size=3))
    level = data.draw(st.integers(-100, 300))
    starts = data.draw(st.lists(st.integers(-6, 5), max_size=4))
    sessions = {start * 50: start * 50 + 100 for start in starts}
    late = LateRecords(len(sessions) if isinstance(window, Session) else 1, level, sessions)
    work = Explaining(Settings(window=window, allowed_lateness_ms=allowed), late, 2)
    for column, values in enumerate(merged([values_of(table(rows), work) for rows in parts], 2)):
        expected = Counter[tuple[str, bool]]()
        for time, *texts_of in (row for rows in parts for row in rows):
            if time is not None:
                name = "(none)" if texts_of[column] is None else texts_of[column][:200]
                expected[name, late_by_hand(time, window, late, allowed)] += 1
        assert {name: (it.records, it.late) for name, it in values.counts.items()} == {
            name: (expected[name, True] + expected[name, False], expected[name, True]) for name, _ in expected
        }
        assert values.uncounted == 0


def table(rows: list[Any]) -> pa.Table:
    times, *columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    first, second = (pa.array(values, pa.string()) for values in columns)
    return pa.table({"ts": pa.array(times, pa.int64()), "explain0": first.dictionary_encode(), "explain1": second})


def test_values_beyond_what_is_reported_have_a_bound() -> None:
    """5,000 values: those that are left out have no more records than is said, and what is left out adds up."""
    r = random.Random(2)
    rows = [(n, f"v{r.randrange(5_000)}", None) for n in range(40_000)]
    work = Explaining(Settings(window=Tumbling(size_ms=100)), LateRecords(1, 500, {}), 2)
    [values, _] = merged([values_of(table(part), work) for part in (rows[:20_000], rows[20_000:])], 2)
    records = Counter(row[1] for row in rows)
    assert len(values.counts) == MAX_VALUES
    assert all(records[name] <= values.uncounted for name in records.keys() - values.counts.keys())
    assert all(0 <= records[name] - it.records <= it.missed for name, it in values.counts.items())
    late_names = Counter(row[1] for row in rows if row[0] < 501 // 100 * 100)
    assert late_names == {name: it.late for name, it in values.counts.items() if it.late}


N, HOUR, MINUTE = 40_000, 3_600_000, 60_000
START = 1_767_225_600_000


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
    shift[off] = {"an hour behind": -HOUR, "an hour ahead": HOUR}.get(cause, 0)
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
        levels = Levels(monitor.level, monitor.w0, None)
        groups = column_groups(part, monitor.settings, monitor.edges, levels)
        observation = observation_of(groups, number, levels, [])
        late = late_records(monitor.operator.windows, observation.groups, levels.level)
        work = Explaining(monitor.settings, late, 3)
        halves = [values_of(part.slice(0, 2_000), work), values_of(part.slice(2_000), work)]
        monitor.apply(replace(observation, values=merged(halves, 3), late=late.records))
    return snapshot_of(monitor, name="x", state="live", wall_ms=0)


def named(snapshot: Snapshot) -> set[tuple[str, str]]:
    """What is called a cause: the values that are sure."""
    return {
        (column.column, value.value) for column in snapshot.own.explain or () for value in column.values if value.sure
    }


CAUSES = {
    "version": ("fw", "4.2"), "null": ("fw", "(none)"), "unicode": ("fw", "日本"), "from the middle": ("fw", "4.2"),
    "one channel": ("fw", "4.2"), "rare": ("site", "hot"), "delivery": ("producer", "p3"),
    "an hour behind": ("producer", "p3"),
}  # fmt: skip


@pytest.mark.parametrize("cause", CAUSES)
def test_a_planted_cause_is_named_and_nothing_else(cause: str) -> None:
    snapshot = planted(cause)
    assert named(snapshot) == {CAUSES[cause]}
    column = (snapshot.own.explain or [])[0]
    assert column.column == CAUSES[cause][0]
    assert column.values[0].value == CAUSES[cause][1]
    if cause != "rare":
        assert "late-cause" in [it.code for it in diagnose(snapshot, [])]
        found = late_cause_of(snapshot)
        assert found is not None
        assert (found.column, found.value) == CAUSES[cause]


def test_a_clock_that_is_ahead_is_found_by_its_future_timestamps() -> None:
    """Its records are not late, and nobody else is late more often because of it."""
    snapshot = planted("an hour ahead")
    assert (snapshot.totals.future or 0) > N / 10
    assert "future-timestamps" in [it.code for it in diagnose(snapshot, [])]
    assert named(snapshot) == set()


def test_no_value_is_named_where_lateness_depends_on_no_column() -> None:
    snapshot = planted("nothing")
    assert (snapshot.totals.late or 0) > 200
    assert named(snapshot) == set()
    assert not [it for it in diagnose(snapshot, []) if it.code == "late-cause"]


def test_no_records_have_no_values() -> None:
    assert merged([values_of(table([]), Explaining(Settings(), LateRecords(0, 0), 2))], 2) == [Values(), Values()]
