"""The fleet: dead and hanging targets delay nobody and are never fine; metrics are what Prometheus's parsers read."""

import re
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics
from prometheus_client.parser import text_string_to_metric_families as plain
from wmtop.engine.snapshot import Cause, Holder, Snapshot
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.targets.fleet import ENGINE_SILENT_MS, SILENT_MS, TargetStatus, TargetWatch, Watcher, WatchTarget
from wmtop.engine.targets.target import Message, Pace, header_of
from wmtop.engine.verdict.blame import held_back_by
from wmtop.engine.verdict.history import history_point
from wmtop.tui.cli.export import MAX_SCRAPES, serve_metrics
from wmtop.tui.cli.fleet import FleetRows, age_ms
from wmtop.tui.words import metrics
from wmtop.tui.words.fleet import FleetRow, aged, fleet_row, layout, ordered
from wmtop.tui.words.metrics import alert_rules, dashboard, query_of
from wmtop.tui.words.spans import clip, row_line
from wmtop.tui.words.texts import filter_of

from tests.snapshots import replace

from ....doctor.streams import Stream, traffic

HEALTHY = Stream().run(120, traffic("abcd")).published[-1]


class Shows:
    """A target that shows one snapshot, again and again."""

    name = "shows"

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def follow(self, name: str, pace: Pace) -> Generator[Message]:
        yield self._snapshot
        while pace.wait(1):
            yield self._snapshot


class Hangs(Shows):
    """A target that never answers."""

    def follow(self, name: str, pace: Pace) -> Generator[Message]:
        pace.wait(30)
        yield from ()


def refuses() -> Shows:
    raise RunError("no answer from there")


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    targets = [
        WatchTarget("hangs", lambda: Hangs(HEALTHY)),
        WatchTarget("dead", refuses),
        WatchTarget("fine", lambda: Shows(HEALTHY)),
        WatchTarget('odd "name"\n', lambda: Shows(replace(HEALTHY, level=replace(HEALTHY.level, holder=None)))),
    ]
    found = Watcher(lambda: targets)
    found.start()
    until(lambda: all(row.lost or row.findings for row in FleetRows(found).rows() if row.target != "hangs"))
    yield found
    found.stop()


def test_a_dead_or_hanging_target_is_unknown_and_delays_no_other(watcher: Watcher) -> None:
    rows = {row.target: row for row in FleetRows(watcher).rows()}
    assert {name: row.verdict for name, row in rows.items()} == {
        "hangs": "unknown", "dead": "unknown", "fine": "moving", 'odd "name"\n': "moving"
    }  # fmt: skip
    assert rows["dead"].lost == "no answer from there"
    assert rows["hangs"].findings is None
    assert [row.verdict for row in ordered(list(rows.values()))][:2] == ["unknown", "unknown"]


def test_why_a_target_was_lost_stays_when_it_cannot_be_found_any_more() -> None:
    class Dies(Shows):
        def follow(self, name: str, pace: Pace) -> Generator[Message]:
            yield self._snapshot
            raise RunError("the engine was killed", code="engine_killed")

    looks = iter([lambda: Dies(HEALTHY)])

    def find() -> Shows:
        made = next(looks, None)
        if made is None:
            raise UsageError("there is no such run")
        return made()

    watch = TargetWatch(WatchTarget("run", find))
    for _ in range(2):
        watch._lose(watch._follow())
    assert watch.status.lost == "the engine was killed"


def test_an_old_reason_does_not_hide_why_a_target_cannot_be_read_now() -> None:
    class Breaks(Shows):
        def follow(self, name: str, pace: Pace) -> Generator[Message]:
            yield self._snapshot
            raise KeyError("x")

    errors = iter(["no answer from http://x:8081", "no job orders on http://x:8081"])
    looks = iter([Breaks(HEALTHY)])

    def find() -> Shows:
        for made in looks:
            return made
        raise UsageError(next(errors))

    watch = TargetWatch(WatchTarget("job", find))
    seen: list[str | None] = []
    for _ in range(3):
        watch._lose(watch._follow())
        seen.append(watch.status.lost)
    assert seen == ["unexpected KeyError: 'x'", "no answer from http://x:8081", "no job orders on http://x:8081"]


def test_a_channel_that_is_a_little_behind_is_not_blamed() -> None:
    level = HEALTHY.level
    assert level.holder is not None
    assert fleet_row("a", "", HEALTHY, (), None).held_back_by is None
    late = replace(HEALTHY, level=replace(level, behind_fastest_ms=10**9, holder=replace(level.holder, cause="behind")))
    assert fleet_row("a", "", late, (), None).held_back_by == level.holder.channel


@pytest.mark.parametrize(
    ("cause", "is_named"),
    [("no_watermark", True), ("never_seen", True), ("quiet", True), ("stuck", True), ("behind", False),
     ("in_flight", False)],
)  # fmt: skip
def test_a_lone_channel_is_named_where_it_has_a_cause(cause: Cause, is_named: bool) -> None:
    """No step is below the fastest channel: it is the only one, or none has a watermark."""
    holder = Holder("orders-0", 0, cause)
    alone = replace(HEALTHY, level=replace(HEALTHY.level, holder=holder, behind_fastest_ms=None), blockers=[])
    assert held_back_by(alone) == ("orders-0" if is_named else None)


def test_what_was_silent_for_long_is_not_known_to_be_fine() -> None:
    row = FleetRow(target="a", kind="run", verdict="moving")
    assert aged(row, 5, 5).verdict == "moving"
    old = aged(row, 6, 5)
    assert (old.verdict, old.lost is not None) == ("unknown", True)
    assert aged(replace(row, verdict="ended"), 6, 5).verdict == "ended"


class Engine(Shows):
    """It also says who it is, as engines do."""

    def follow(self, name: str, pace: Pace) -> Generator[Message]:
        yield header_of(self._snapshot, 0)
        yield from super().follow(name, pace)


class Overtakes(Shows):
    """An engine whose history and snapshots have points that were overtaken, one over the end of a lag's column."""

    WALLS = (9_000, 10_100, 9_950, 11_000, 10_950)

    def follow(self, name: str, pace: Pace) -> Generator[Message]:
        snapshots = [replace(self._snapshot, wall_ms=wall) for wall in self.WALLS]
        points = [point for snapshot in snapshots[:3] if (point := history_point(snapshot)) is not None]
        yield header_of(snapshots[2], 0, points)
        yield from snapshots[3:]
        pace.wait(30)


def test_a_point_that_was_overtaken_ends_neither_the_fleet_nor_its_history() -> None:
    watch = TargetWatch(WatchTarget("a", lambda: Overtakes(HEALTHY)))
    watch.start()
    try:
        until(lambda: watch.status.snapshot is not None and watch.status.snapshot.wall_ms == Overtakes.WALLS[-1])
        assert [point.wall_ms for point in watch.points] == [9_000, 10_100, 11_000]
        row = fleet_row("a", "run", watch.status.snapshot, watch.points, None)
        assert len([lag for lag in row.lags if lag is not None]) == 2
    finally:
        watch.stop()


class Seldom(Shows):
    """Its polls are expensive."""

    def follow(self, name: str, pace: Pace) -> Generator[Message]:
        pace.sample_s = 60.0
        yield from super().follow(name, pace)


@pytest.mark.parametrize(
    ("kind", "silent_after_ms"), [(Engine, ENGINE_SILENT_MS), (Shows, SILENT_MS), (Seldom, 2 * 60_000)]
)
def test_an_engine_is_silent_sooner_than_what_is_polled_is(kind: type[Shows], silent_after_ms: int) -> None:
    """An engine sends a snapshot every second; a poll takes its time, and between two of them nothing is missed."""
    now_s = [0.0]
    found = Watcher(lambda: [WatchTarget("a", lambda: kind(HEALTHY))], clock=lambda: now_s[0])
    found.start()
    try:
        rows = FleetRows(found, clock=lambda: now_s[0])
        until(lambda: found.watches()[0].status.snapshot is not None)
        now_s[0] = silent_after_ms / 1_000
        assert [row.verdict for row in rows.rows()] == ["moving"]
        now_s[0] += 0.001
        assert [(row.verdict, row.lost is None) for row in rows.rows()] == [("unknown", False)]
    finally:
        found.stop()


def test_a_recording_is_as_old_as_its_last_snapshot_and_never_stale() -> None:
    """Its snapshot is shown again and again."""
    assert HEALTHY.wall_ms is not None
    old_ms = age_ms(TargetStatus("a", "recording", HEALTHY, heard_s=9.0), 10.0)
    assert old_ms is not None
    assert old_ms > 3_600_000
    assert age_ms(TargetStatus("a", "run", HEALTHY, heard_s=9.0), 10.0) == 1_000
    assert aged(FleetRow(target="a", kind="recording", verdict="moving"), old_ms, 5).verdict == "moving"


def test_rows_are_sorted_and_filtered() -> None:
    rows = [
        FleetRow(target="b", kind="run", verdict="moving", behind_fastest_ms=5),
        FleetRow(target="a", kind="run", verdict="moving", behind_fastest_ms=9),
        FleetRow(target="c", kind="run", verdict="stalled"),
    ]
    assert [row.target for row in ordered(rows)] == ["c", "a", "b"]
    assert [row.target for row in ordered(rows, "target", reverse=True)] == ["c", "b", "a"]
    assert [row.target for row in ordered(rows, "lag")] == ["a", "b", "c"]
    assert [row.target for row in ordered(rows, pattern=filter_of("[ab]"))] == ["a", "b"]


@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_a_row_fits(width: int) -> None:
    row = FleetRow(target="x" * 60, kind="event log", verdict="stalled", held_back_by="y" * 60)
    text = "".join(part for part, _ in clip(row_line(layout([row], width), row), width))
    assert len(text) <= width
    assert "STALLED" in text


def scraped(port: int, accept: str) -> str:
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Accept": accept})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def test_a_scrape_is_what_the_official_parsers_read(watcher: Watcher) -> None:
    port = serve_metrics(watcher, "127.0.0.1", 0)
    families = {family.name: family for family in plain(scraped(port, "text/plain"))}
    assert set(families) >= {"wmtop_up", "wmtop_verdict", "wmtop_records", "wmtop_watermark_behind_fastest_seconds"}
    up = {sample.labels["target"]: sample.value for sample in families["wmtop_up"].samples}
    assert up == {"hangs": 0, "dead": 0, "fine": 1, 'odd "name"\n': 1}
    records = {sample.labels["target"]: sample.value for sample in families["wmtop_records"].samples}
    assert records["fine"] == HEALTHY.totals.records
    assert set(records) == {"fine", 'odd "name"\n'}  # not known is absent, never 0
    verdicts = families["wmtop_verdict"].samples
    assert {s.labels["target"] for s in verdicts if s.labels["verdict"] == "unknown" and s.value} == {"hangs", "dead"}
    text = scraped(port, "application/openmetrics-text; version=1.0.0")
    assert text.endswith("# EOF\n")
    assert {family.name for family in openmetrics(text)} >= {"wmtop_up", "wmtop_target", "wmtop_records"}


def test_channels_are_bounded_and_the_rest_is_other() -> None:
    many = [replace(HEALTHY.channels[0], channel=f"c{number}", backlog=1) for number in range(100)]
    given = metrics.CheckInput(replace(HEALTHY, channels=many), [], "moving", [])
    [lags] = [metric for metric in metrics.METRICS if metric.name == "channel_watermark_lag_seconds"]
    [backlogs] = [metric for metric in metrics.METRICS if metric.name == "channel_backlog_records"]
    assert len(list(lags.take(given))) == metrics.TOP_CHANNELS + 1
    assert dict(backlogs.take(given))[(metrics.OTHER,)] == 100 - metrics.TOP_CHANNELS


def test_names_follow_prometheus_rules() -> None:
    for metric in metrics.ALL_METRICS:
        assert re.fullmatch(r"wmtop_[a-z][a-z_]*", metric.series)
        assert metric.help.endswith(".")
        assert metric.series.endswith("_total") == (metric.kind == "counter")
        assert not metric.unit or metric.unit == "records" or metric.name.endswith(metric.unit)


def test_dashboard_and_rules_ask_for_metrics_that_there_are() -> None:
    series = {metric.series for metric in metrics.ALL_METRICS}
    asked = [query_of(metric) for metric in metrics.ALL_METRICS] + [alert.expr for alert in metrics.ALERTS]
    assert set(re.findall(r"wmtop_\w+", " ".join(asked))) <= series
    assert alert_rules().count("- alert:") == len({alert.name for alert in metrics.ALERTS})
    assert '"panels"' in dashboard()


@pytest.mark.parametrize(
    ("host", "scraped"),
    [
        ("127.0.0.1:9464", True),
        ("localhost", True),
        ("10.244.1.7:9464", True),
        ("[fd00::7]:9464", True),
        ("wmtop:9464", True),
        ("wmtop.monitoring.svc:9464", False),
        ("WMTOP.example.com:9464", True),
        ("evil.example", False),
        ("127.0.0.1.evil.example:9464", False),
        ("10.1.2.3@evil.example", False),
    ],
)
def test_metrics_are_served_under_the_names_of_the_server_only(watcher: Watcher, host: str, scraped: bool) -> None:
    port = serve_metrics(watcher, "127.0.0.1", 0, ["wmtop.example.com"])
    request = urllib.request.Request(f"http://127.0.0.1:{port}/metrics", headers={"Host": host})
    if scraped:
        with urllib.request.urlopen(request, timeout=10) as answer:
            assert b"wmtop_up" in answer.read()
        return
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=10)
    assert refused.value.code == 403
    assert b"wmtop_up" not in refused.value.read()


def test_half_open_requests_are_bounded_and_a_scrape_comes_through(watcher: Watcher) -> None:
    port = serve_metrics(watcher, "127.0.0.1", 0)
    before = threading.active_count()
    halves = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(4 * MAX_SCRAPES)]
    try:
        for half in halves:
            with suppress(OSError):
                half.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
        assert "wmtop_up" in scraped(port, "text/plain")
        assert halves[0].recv(1) == b""  # the oldest was ended
        deadline = time.monotonic() + 20
        while threading.active_count() > before + MAX_SCRAPES:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        for half in halves:
            half.close()


def test_no_label_has_what_a_terminal_obeys() -> None:
    class Found:
        def watches(self) -> list[TargetWatch]:
            return [TargetWatch(WatchTarget("a\x1b]0;x\x07\ud800", refuses)), TargetWatch(WatchTarget("b", refuses))]

    port = serve_metrics(Found(), "127.0.0.1", 0)  # type: ignore[arg-type]
    names = {sample.labels["target"] for family in plain(scraped(port, "text/plain")) for sample in family.samples}
    assert names == {"a\\u001b]0;x\\u0007\\ud800", "b"}
