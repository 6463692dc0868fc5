"""A job that publishes and taps: the same facts as its event log, the counts made by hand, and an unharmed job."""

import base64
import fcntl
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from msgspec.structs import replace
from wmtop import engine
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.job import CANNOT_PUBLISH, OVER_CONNECT
from wmtop.engine.targets.open import open_target
from wmtop.engine.targets.spark.facts import Application, QueryRun, QueryStarted, QueryTerminated
from wmtop.engine.targets.spark.queries import Queries
from wmtop.engine.targets.spark.reports import (
    JobReports,
    PublishedTap,
    find_published,
    is_held,
    list_published,
    remove_leftovers,
)
from wmtop.engine.targets.spark.tapped import MAX_CHANNELS, ChannelFacts, InputFacts, TappedInput, key_of, key_of_long
from wmtop.engine.targets.target import AttachedTarget
from wmtop.tui.cli.targets import members

from ...refusals import refused
from .jobs import LOCAL, ORDERS, RETURNS, Row, Seen, query, ticks, wait_until
from .test_sketch import compact

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def tapped(seen: Seen, name: str, of: str) -> InputFacts:
    [found] = [tapped for tapped in query(seen.log, of).inputs if tapped.name == name]
    assert found.trouble is None
    return found


def channels(files: list[list[Row]]) -> dict[str, ChannelFacts]:
    """By hand: the greatest event time and the rows of each channel."""
    found: dict[str, ChannelFacts] = {}
    for ms, key in (row for rows in files for row in rows):
        if ms is not None:
            before = found.get(key or "(none)", ChannelFacts(ms, 0))
            found[key or "(none)"] = ChannelFacts(max(before.max_ms, ms), before.rows + 1)
    return found


UPPER: list[list[Row]] = [[(ms, (key or "").upper()) for ms, key in rows] for rows in RETURNS]
INPUTS = [
    ("rolled", "windows", "orders", ORDERS, 1000),
    ("rolled", "windows", "ts", UPPER, 10_000),
    ("plain", "local", "ts", LOCAL, 10_000),
]


@pytest.mark.parametrize(("kind", "of", "name", "files"), [place[:4] for place in INPUTS])
def test_an_input_is_what_counting_by_hand_gives(
    seen: dict[str, Seen], kind: str, of: str, name: str, files: list[list[Row]]
) -> None:
    found = tapped(seen[kind], name, of)
    times = [[ms for ms, _ in rows if ms is not None] for rows in files]
    every = [ms for some in times for ms in some]
    assert (found.rows, found.nulls) == (sum(map(len, files)), sum(map(len, files)) - len(every))
    assert found.max_ms == max(every)
    assert found.channels == channels(files)
    assert found.sampled is None
    assert [batch.channels for batch in found.recent] == [channels([rows]) for rows in files]


@pytest.mark.parametrize(("kind", "of", "name", "files", "bucket_ms"), INPUTS)
def test_lateness_is_known_to_within_a_bucket(
    seen: dict[str, Seen], kind: str, of: str, name: str, files: list[list[Row]], bucket_ms: int
) -> None:
    lateness = tapped(seen[kind], name, of).lateness
    assert lateness is not None
    assert (lateness.bucket_ms, lateness.delays_ms[0]) == (bucket_ms, bucket_ms)
    assert lateness.barrel is not None
    for counts, behind in (lateness.spark, behind_fastest(files)), (lateness.barrel, behind_slowest(files)):
        for delay, count in zip(lateness.delays_ms, counts, strict=True):
            late = sum(distance >= delay for distance in behind)
            assert late <= count <= sum(distance >= delay - bucket_ms for distance in behind)
    if kind == "rolled":
        assert lateness.spark[0] > 0


def behind_fastest(files: list[list[Row]]) -> list[int]:
    """How far each row lies behind the greatest event time before the batch before its own."""
    found: list[int] = []
    before: int | None = None
    level: int | None = None
    for rows in files:
        times = [ms for ms, _ in rows if ms is not None]
        found += [before - ms for ms in times if before is not None]
        before = level
        level = max([*times, *([] if level is None else [level])])
    return found


def behind_slowest(files: list[list[Row]]) -> list[int]:
    """The same for the watermark that the slowest channel gives, which never goes back."""
    found: list[int] = []
    before: int | None = None
    level: int | None = None
    for number, rows in enumerate(files):
        found += [before - ms for ms, _ in rows if ms is not None and before is not None]
        before = level
        slowest = min(channel.max_ms for channel in channels(files[: number + 1]).values())
        level = slowest if level is None else max(level, slowest)
    return found


def test_a_pasted_observe_says_the_same(seen: dict[str, Seen]) -> None:
    pasted, ours = tapped(seen["plain"], "pasted", "local"), tapped(seen["plain"], "ts", "local")
    assert replace(pasted, name="ts") == ours


def test_an_input_without_channels(seen: dict[str, Seen]) -> None:
    ticking = tapped(seen["rolled"], "timestamp", "ticking")
    batches = [batch for batch in seen["rolled"].job.progress()["ticking"] if "addBatch" in batch["durationMs"]]
    assert ticking.rows == sum(batch["numInputRows"] for batch in batches)
    assert (ticking.channels, ticking.barrel_ms) == ({}, None)
    assert ticking.lateness is not None
    assert ticking.lateness.barrel is None


def test_a_job_publishes_what_its_event_log_says(seen: dict[str, Seen]) -> None:
    [job] = seen["rolled"].last_words
    said, logged = job.publication, seen["rolled"].log
    assert said.app == logged.app
    assert said.trouble is None
    for run in logged.queries:
        published = query(said, run.name or "")
        root = published.plan.checkpoint if published.plan else None
        assert comparable(published) == comparable(run)
        if run.name != "failing":
            assert root == str(seen["rolled"].job.directory / "checkpoints" / (run.name or ""))


def comparable(run: QueryRun) -> QueryRun:
    """Without what one of the two cannot know (a stateless query's checkpoint, the trigger, when a batch began, how
    long a pause was) and cut decimals."""
    assert run.progress is not None
    no_rates = {"input_rows_per_second": None, "processed_rows_per_second": None}
    sources = tuple(replace(source, **no_rates) for source in run.progress.sources)
    return replace(
        run,
        plan=run.plan and replace(run.plan, checkpoint=None, trigger_ms=None),
        running=None,
        last_event_ms=None,
        pause_ms=None,
        progress=replace(run.progress, sources=sources),
    )


def test_a_job_publishes_the_batch_in_which_a_query_failed(seen: dict[str, Seen]) -> None:
    [job] = seen["rolled"].last_words
    for facts in (job.publication, seen["rolled"].log):
        failing = query(facts, "failing")
        assert failing.error is not None
        assert failing.running is not None
        assert failing.progress is not None
        assert (failing.running.batch, failing.progress.batch) == (1, 0)


def test_a_job_can_be_read_while_it_runs_and_is_known_to_be_gone(seen: dict[str, Seen]) -> None:
    [early], [late] = seen["rolled"].published, seen["rolled"].last_words
    assert (early.publication.alive, late.publication.alive) == (True, False)
    assert early.name == late.name == f"somebody-s-rolled-job-{early.publication.pid}"
    assert [query.ended for query in early.publication.queries] == [False, True, False]
    assert [query.ended for query in late.publication.queries] == [True, True, True]
    assert early.publication.written_ms < late.publication.written_ms


def test_publishing_twice_is_publishing_once(seen: dict[str, Seen]) -> None:
    [job] = seen["rolled"].last_words
    history = query(job.publication, "ticking").history
    assert all(before.batch < after.batch for before, after in pairwise(history))


def test_the_job_outlived_its_reader_and_its_run_directory(seen: dict[str, Seen]) -> None:
    assert seen["rolled"].exit_code == 0
    assert ticks(seen["rolled"].log) > ticks(seen["rolled"].early) + 4
    errors = seen["rolled"].job.errors
    assert not [line for line in errors.splitlines() if line.startswith("wmtop")]
    assert str(Path(engine.__file__).parent) not in errors


def test_a_job_that_cannot_publish_says_so_and_runs(seen: dict[str, Seen]) -> None:
    lines = [line for line in seen["plain"].job.errors.splitlines() if line.startswith("wmtop")]
    assert len(lines) == 2  # for each call
    assert lines[0].startswith(CANNOT_PUBLISH.removesuffix("%s"))
    assert query(seen["plain"].log, "local").ended


def test_importing_the_two_lines_imports_nothing_else() -> None:
    code = "import sys; from wmtop.engine import publish, tap; print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "'wmtop.engine'" in done.stdout
    for name in ("pyspark", "textual", "msgspec", "numpy", "wmtop.engine."):
        assert f"'{name}" not in done.stdout


@pytest.fixture
def run_dir(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A path short enough for the sockets of engines."""
    with tempfile.TemporaryDirectory(prefix="wmtop-") as directory:
        monkeypatch.setenv("WMTOP_RUN_DIR", directory)
        yield Path(directory)


@pytest.fixture
def job(run_dir: Path) -> "Iterator[Job]":
    from wmtop.engine.targets.job import Job

    job = Job(run_dir, "my job", "local-1")
    yield job
    job.end()


if TYPE_CHECKING:
    from wmtop.engine.targets.job import Job


def test_jobs_are_found_by_any_of_their_names(job: "Job", run_dir: Path) -> None:
    from wmtop.engine.targets.spark.facts import QueryStarted

    job.take(QueryStarted("id", "run", "orders", "2026-01-01T00:00:00.000Z"))
    [path] = run_dir.glob("*.published")
    tap = PublishedTap(path)
    deadline = time.monotonic() + 20
    while not ((said := tap.poll()) and said.queries):
        assert time.monotonic() < deadline
    for name in (path.stem, "my job", "local-1", "orders"):
        assert path_of(name) == path
    assert find_published("other") is None
    (run_dir / "their-1.published").write_bytes(path.read_bytes())
    assert path_of("my job") == path  # the other one is dead
    for dead in (path.read_bytes(), b"{}", b"", b"\xff", b"[" * 5000, b'{"version": 2}'):
        (run_dir / "their-1.published").write_bytes(dead)
        assert len(list_published()) == (2 if dead == path.read_bytes() else 1)


def test_a_checkpoint_leads_to_the_job_in_which_its_query_failed_or_runs_again(job: "Job", run_dir: Path) -> None:
    from wmtop.engine.targets.job import Job

    when = "2026-01-01T00:00:00.000Z"
    job.take(QueryStarted("id", "run", "orders", when))
    job.take(QueryTerminated("id", "run", "java.lang.IllegalStateException: the disk is full"))
    failed = wait_until(lambda: (report := JobReports().poll("id")) and report.run and report.run.ended and report)
    assert (failed.alive, failed.run and failed.run.error) == (True, "IllegalStateException: the disk is full")
    for name in ("a job", "z job"):  # listed before it, and after it
        other = Job(run_dir, name, "local-2")
        other.take(QueryStarted("id", f"run of {name}", "orders", when))
        running = wait_until(
            lambda: (report := JobReports().poll("id")) and report.run and not report.run.ended and report
        )
        assert running.run is not None
        assert running.run.run_id == f"run of {name}"
        other.take(QueryTerminated("id", f"run of {name}", None))
        other.end()
        next(run_dir.glob(f"{name[0]}-job*.published")).unlink()


class Said:
    """An event of the JVM: of each name a method that gives its value."""

    def __init__(self, **values: object) -> None:
        for name, value in values.items():
            setattr(self, name, lambda value=value: value)


def test_the_report_of_a_query_that_has_stopped_meanwhile_is_not_lost(job: "Job", spark: "SparkSession") -> None:
    """Events come later than they happen: of a run of one batch there is no plan any more."""
    from wmtop.engine.targets.job import _Listener

    id, run_id, when, listener = str(uuid.uuid4()), str(uuid.uuid4()), "2026-01-01T00:00:00.000Z", _Listener(job, spark)
    ids = {"id": Said(toString=id), "runId": Said(toString=run_id)}
    listener.onQueryStarted(Said(**ids, name="once", timestamp=when))
    durations = {"addBatch": 5, "triggerExecution": 9}
    report = {"id": id, "runId": run_id, "batchId": 0, "timestamp": when, "durationMs": durations}
    listener.onQueryProgress(Said(progress=Said(**ids, json=json.dumps(report))))
    [run] = job._queries.facts()
    assert run.plan is None
    assert run.progress is not None
    assert (run.progress.batch, run.dropped_at_least) == (0, 0)


def test_the_end_of_a_query_with_which_its_script_ends_is_waited_for(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its event comes from the JVM while Python ends already; without it, the job would have been killed or failed."""
    from wmtop.engine.targets import job as jobs

    monkeypatch.setattr(jobs, "LAST_WORD_S", 60.0)
    job = jobs.Job(run_dir, "my job", "local-1")
    job.take(QueryStarted("id", "run", "orders", "2026-01-01T00:00:00.000Z"))
    wait_until(lambda: (report := JobReports().poll("id")) and report.run)
    ending = threading.Thread(target=job.end)
    ending.start()
    waiting = cast("list[object]", getattr(job._state, "_waiters"))  # noqa: B009 - of CPython's Condition
    wait_until(lambda: len(waiting) > 1 or not job._thread.is_alive())  # it waits, or has ended without it
    job.take(QueryTerminated("id", "run", None))
    ending.join()
    report = JobReports().poll("id")
    assert report is not None
    assert report.run is not None
    assert report.run.ended


def path_of(name: str) -> Path:
    job = find_published(name)
    assert job is not None
    return job.path


def said_by(pid: int, app: str, *names: str, id: str = "id", written_ms: int = 0) -> bytes:
    """The file of a job that publishes queries of these names, with that id."""
    queries = Queries()
    for name in names:
        queries.apply(QueryStarted(id, f"run {pid}", name, "2026-01-01T00:00:00.000Z"))
    of = Application(
        app=app, app_id=f"local-{pid}", pid=pid, written_ms=written_ms,
        queries=queries.facts(),
    )  # fmt: skip
    return msgspec.json.encode(of)


def test_a_job_that_publishes_late_knows_no_exact_number(job: "Job", spark: "SparkSession") -> None:
    """Of a query that has begun before, batches may be missing."""
    from wmtop.engine.targets.job import _Listener

    listener, when = _Listener(job, spark), "2026-01-01T00:00:00.000Z"
    for id in ("11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"):
        ids = {"id": Said(toString=id), "runId": Said(toString=id)}
        if id.startswith("2"):
            listener.onQueryStarted(Said(**ids, name="later", timestamp=when))
        report = {"id": id, "runId": id, "batchId": 7, "timestamp": when, "durationMs": {"triggerExecution": 9}}
        listener.onQueryProgress(Said(progress=Said(**ids, json=json.dumps(report))))
    assert [run.is_whole for run in job._queries.facts()] == [False, True]


def test_after_restarts_the_running_job_is_meant_also_before_its_query_has_begun(run_dir: Path) -> None:
    old, newer = run_dir / "shop-1.published", run_dir / "shop-2.published"
    old.write_bytes(said_by(1, "shop", "orders", written_ms=9))
    newer.write_bytes(said_by(2, "shop", "orders", written_ms=20))
    assert path_of("orders") == newer, "the last one that ran"
    running = run_dir / "shop-3.published"
    running.write_bytes(said_by(3, "shop"))
    with open(running, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert path_of("orders") == running
        assert path_of("shop-1") == old, "unless its own name is given"
        found = open_target("orders")
        assert isinstance(found, AttachedTarget)
        assert found.name == "orders"
        report = found.target.poll().report
        assert report is not None
        assert report.run is None, "no other query of that job is shown instead"
        running.write_bytes(said_by(3, "shop", "views", id="another"))
        assert path_of("orders") == newer, "a job of that application that runs something else"
    elsewhere = run_dir / "other-4.published"
    elsewhere.write_bytes(said_by(4, "shop", "orders", id="its own", written_ms=30))
    with refused(UsageError, "several_jobs", "shop-1", "other-4"):
        find_published("orders")


def test_only_a_query_name_means_a_running_job_without_queries(run_dir: Path) -> None:
    """The id of an ended application means that application, and a default name does not make two jobs one."""
    for app, means_new in (("shop", True), ("pyspark-shell", False), ("Spark shell", False)):
        old, running = run_dir / "old-1.published", run_dir / "new-2.published"
        old.write_bytes(said_by(1, app, "orders"))
        running.write_bytes(said_by(2, app))
        with open(running, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            assert path_of("local-1") == old
            assert path_of("orders") == (running if means_new else old)
            assert path_of(app) == running


def test_the_fleet_has_a_query_that_died_for_a_day_or_until_a_job_runs_it_again(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its id: after a restart it may have another name."""
    (run_dir / "config.toml").touch()
    monkeypatch.setenv("WMTOP_CONFIG", str(run_dir / "config.toml"))
    dead, running = run_dir / "old-1.published", run_dir / "new-2.published"
    dead.write_bytes(said_by(1, "shop", "orders"))
    assert [member.name for member in members()] == ["orders"]
    running.write_bytes(said_by(2, "shop", "orders-v2"))
    with open(running, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert [member.name for member in members()] == ["orders-v2"]
        running.write_bytes(said_by(2, "shop", "views", id="another"))
        assert [member.name for member in members()] == ["views", "orders"]
        os.utime(dead, (time.time() - 90_000,) * 2)
        assert [member.name for member in members()] == ["views"]
    assert not dead.exists()


def test_a_reader_never_sees_a_living_job_dead(job: "Job", run_dir: Path) -> None:
    from wmtop.engine.targets.spark.facts import QueryIdle

    [path] = run_dir.glob("*.published")
    done = threading.Event()

    def run() -> None:
        for number in range(2000):
            job.take(QueryIdle("id", f"run {number % 5}", None))
        done.set()

    events = threading.Thread(target=run)
    events.start()
    tap, seen = PublishedTap(path), list[Application | None]()
    while not done.is_set():
        seen.append(tap.poll())
    events.join()
    assert all(said is not None and said.alive and said.trouble is None for said in seen)


def test_leftovers_go_after_a_day(job: "Job", run_dir: Path) -> None:
    [living] = run_dir.glob("*.published")
    for name, age_s in (
        ("new.published", 0),
        ("old.published", 90_000),
        ("old.published.new", 90_000),
        ("a.json", 90_000),
    ):
        (run_dir / name).write_text("{}")
        os.utime(run_dir / name, (time.time() - age_s,) * 2)
    os.utime(living, (1, 1))
    remove_leftovers(run_dir)
    left = {path.name for path in run_dir.iterdir()} - {f"{living.name}.new"}  # which the job may be writing just now
    assert left == {living.name, "new.published", "a.json"}


def test_a_lock_shows_a_living_job(tmp_path: Path) -> None:
    path = tmp_path / "x.published"
    assert not is_held(path)
    path.write_text("{}")
    assert not is_held(path)
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert is_held(path)
    assert not is_held(path)


def test_a_tap_wants_a_timestamp(spark: "SparkSession") -> None:
    from wmtop.engine import tap

    df = spark.sql("select timestamp '2026-01-01' as ts, 1 as number")
    with refused(UsageError, "no_time", "number"):
        tap(df, "number")
    with refused(UsageError, "no_width", "bucket_ms"):
        tap(df, "ts", bucket_ms=0)


def test_without_sketches_the_log_says_what_is_not_counted(
    spark: "SparkSession", monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Spark before 4.3 has none."""
    from pyspark.sql import functions as F
    from wmtop.engine import tap

    monkeypatch.delattr(F, "tuple_sketch_agg_double")
    df = spark.sql("select timestamp '2026-01-01' as ts, 'x' as device")
    assert tap(df, "ts", "device").collect() == df.collect()
    assert "seen as a whole, not by channel" in caplog.text


def test_a_tap_leaves_the_data_as_it_was_and_takes_a_name_of_its_own(spark: "SparkSession") -> None:
    from wmtop.engine import tap

    df = spark.sql("select timestamp '2026-01-01' as ts, array(1) as a, map('k', 1) as `m m`")
    twice = tap(tap(df, "ts", "a", name="a, b"), "ts", df["`m m`"]["k"], name="a, b")
    assert twice.schema == df.schema
    assert twice.collect() == df.collect()
    plan = twice._jdf.queryExecution().analyzed().toString()  # pyright: ignore[reportPrivateUsage]
    assert "CollectMetrics wmtop:a b, " in plan
    assert "CollectMetrics wmtop:a b-2, " in plan


def test_of_too_many_channels_a_fair_sample_is_exact() -> None:
    every = {key: number for number, key in enumerate(map(key_of_long, range(3 * MAX_CHANNELS)))}
    tapped, keys = TappedInput("many"), sorted(every)
    for batch in range(6):
        some = keys[batch % 3 :: 3]
        theta = keys[4000] + 1 if batch == 4 else None
        kept = [key for key in some if theta is None or key < theta]
        maxima = {key: float(1000 * batch + every[key]) for key in kept}
        tapped.apply(batch, 0, observed(len(some), maxima, dict.fromkeys(kept, 2.0), theta))
    found = tapped.facts()
    assert found.trouble is None
    assert found.sampled is not None
    assert found.sampled.kept == len(found.channels) == 4001
    assert found.sampled.of == pytest.approx(len(every), rel=0.1)
    assert found.barrel_ms is None
    expected = {key: ChannelFacts(1000 * (3 + keys.index(key) % 3) + every[key], 4) for key in keys[:4001]}
    assert found.channels == {f"#{key:016x}": channel for key, channel in expected.items()}


Values = dict[int, float]


def observed(rows: int, maxima: Values, counts: Values, theta: int | None = None) -> dict[str, object]:
    """What a tap's observe says."""
    return {"rows": rows, "max_by_channel": encoded(maxima, theta), "rows_by_channel": encoded(counts, theta)}


def encoded(values: Values, theta: int | None = None) -> str:
    return base64.b64encode(compact(values, theta)).decode()


def test_a_wrong_report_of_a_tap_is_named_and_left_out() -> None:
    tapped = TappedInput("x")
    good = observed(3, {1: 5.0}, {1: 3.0})
    tapped.apply(0, 0, good)
    for wrong in (
        None,
        [],
        {"rows": "3"},
        good | {"max_by_channel": "AAAA"},
        good | {"max_by_channel": "no base64"},
        good | {"channel_names": "{"},
        good | {"min_ms": 2**60},
        {"values": [1], "schema": None},
        observed(3, {1: float("inf")}, {}),
        observed(3, {1: 1.0}, {1: -1.0}),
        good | {"rows_by_bucket": good["max_by_channel"], "bucket_ms": 0, "min_ms": 0, "max_ms": 0},
    ):
        tapped.apply(1, 0, wrong)
        facts = tapped.facts()
        assert facts.trouble is not None
        assert facts.trouble.startswith("tap x, batch 1: ")
        assert (facts.rows, facts.channels) == (3, {"#0000000000000001": ChannelFacts(5, 3)})


def test_buckets_beside_a_wild_time_are_found() -> None:
    tapped = TappedInput("x")
    bucket = 10_000
    for batch, times in enumerate(([10**12], [10**12 - 60_000, 10**12 + 5000, 4 * 10**15, 0])):
        starts = [time // bucket * bucket for time in times]
        keys = [key_of_long(start) for start in starts]
        one = observed(len(times), {1: float(max(times))}, {1: float(len(times))})
        one |= {"rows_by_bucket": encoded(dict.fromkeys(keys, 1.0)), "bucket_ms": bucket}
        tapped.begin()
        tapped.apply(batch, 0, one | {"min_ms": min(times), "max_ms": max(times)})
        tapped.begin()  # a batch without data
    lateness = tapped.facts().lateness
    assert lateness is not None
    assert lateness.spark[lateness.delays_ms.index(60_000)] == 1


def test_names_that_look_alike_are_two_channels() -> None:
    names = ["a  b", "a b", "x" * 300 + "1", "x" * 300 + "2", "", None]
    keys = {key_of(name): 1.0 for name in names if name}
    tapped = TappedInput("x")
    tapped.apply(0, 0, observed(4, keys, keys) | {"channel_names": json.dumps(names)})
    found = tapped.facts()
    assert found.trouble is None
    assert len(found.channels) == 4
    assert "a b" in found.channels
    assert all(name.isprintable() for name in found.channels)


def test_over_spark_connect_one_line_says_what_to_do(caplog: pytest.LogCaptureFixture) -> None:
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    engine.publish(session)
    engine.publish(session)
    [record] = caplog.records
    assert record.message == OVER_CONNECT
