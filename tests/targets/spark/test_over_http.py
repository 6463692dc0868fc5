"""Spark over HTTP: a real driver and Spark's own History Server; the truth is what the queries report of themselves."""

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import trustme
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.open import open_target
from wmtop.engine.targets.spark.facts import QueryFacts, QueryRun
from wmtop.engine.targets.target import AttachedTarget, Follower, TargetOptions
from wmtop.tui.words.summary import summary

from tests.one_truth import check_all

from ...refusals import refused
from ..flink.proxies import proxy
from .shop import applications, free_port, started_history_server, started_job, until

DELAYS_MS = {"counts": 1_500, "plain": 45_000, "seen": 2_000, "each": 7_000}
QUERIES = tuple(DELAYS_MS)
LOOKS, LOOK_S, LOOK_PATIENCE_MS = 16, 0.3, 1_500


@dataclass
class Job:
    """The job of `http_job.py`, and a History Server that reads its log."""

    directory: Path
    port: int
    history_port: int

    @property
    def driver(self) -> str:
        return f"spark+http://127.0.0.1:{self.port}"

    @property
    def history(self) -> str:
        return f"spark+http://127.0.0.1:{self.history_port}"

    def truth(self, query: str) -> dict[int, Any]:
        """The query's own reports by batch."""
        lines = (self.directory / f"{query}.ndjson").read_text().splitlines(keepends=True)
        reports = [json.loads(line) for line in lines if line.endswith("\n")]
        return {report["batchId"]: report for report in reports}

    def order(self, what: str) -> None:
        (self.directory / what).touch()


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Job]:
    directory = tmp_path_factory.mktemp("http")
    made = Job(directory, free_port(), free_port())
    with _driver(made), started_history_server(directory / "logs", made.history_port) as history:
        try:
            until(lambda: True if _has_batches(made, 6) else None)
            until(lambda: applications(made.history_port) or None)
            until(lambda: applications(made.port))  # the first answer takes long
            yield made
        finally:
            history.kill()


@contextmanager
def _driver(job: Job, *settings: str) -> Generator[None]:
    with started_job(job.directory, job.port, *settings) as process:
        try:
            yield
        finally:
            process.kill()


def _has_batches(job: Job, count: int) -> bool:
    try:
        return all(len(job.truth(query)) >= count for query in QUERIES)
    except OSError:
        return False


def _opened(address: str, query: str | None = None) -> Any:
    opened = open_target(address, TargetOptions(query=query))
    assert isinstance(opened, AttachedTarget)
    return opened.target


def _ms(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp() * 1000)


def _batches(run: QueryRun, truth: dict[int, Any]) -> int:
    """How many of the run's batches are as the query reported them; each one that differs fails."""
    for batch in run.history:
        assert batch.watermark_ms == (_ms(truth[batch.batch]["eventTime"]["watermark"]) or None), batch
    return len(run.history)


@pytest.mark.parametrize("server", ["driver", "history"])
def test_tls_a_login_and_a_path_prefix_before_it(
    job: Job, server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind an ingress: each of the three is needed, and all of them are passed on with each request."""
    authority, context = trustme.CA(), ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    trusted = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(trusted))
    login = "Basic " + base64.b64encode(b"watcher:open sesame").decode()
    target = (job.driver if server == "driver" else job.history).removeprefix("spark+")
    options = TargetOptions(query="counts", ca_file=trusted)
    with proxy(target, prefix="/spark/prod", context=context, authorization=login) as there:
        address = f"spark+{there.url}/"

        def seen(address: str, options: TargetOptions) -> Snapshot:
            opened = open_target(address, options)
            assert isinstance(opened, AttachedTarget)
            with closing(opened.target) as watch:
                watch.open()
                return watch.picture("counts", watch.poll(), time.time_ns() // 1_000_000).snapshot

        with pytest.raises(UsageError, match="401"):
            seen(address, options)
        monkeypatch.setenv("WMTOP_SPARK_LOGIN", "watcher:open sesame")
        snapshot = seen(address, options)
        assert snapshot.settings.lateness_ms == DELAYS_MS["counts"]
        assert {headers.get("Authorization") for _, headers in there.asked} == {None, login}
        assert {path.startswith("/spark/prod/") for path, _ in there.asked} == {True}
        with pytest.raises(UsageError, match="certificate"):
            seen(address, TargetOptions(query="counts"))
        with pytest.raises(UsageError, match="HTTP 404"):
            seen(address.replace("/spark/prod/", "/"), options)


@pytest.mark.parametrize("query", QUERIES)
def test_a_driver_shows_what_its_query_reports(job: Job, query: str) -> None:
    with closing(_opened(job.driver, query)) as watch:
        watch.open()

        def run_after_two() -> QueryRun | None:
            facts = watch.poll()
            assert facts.checkpoint is None
            known = facts.run.progress is not None and facts.run.progress.watermark_ms is not None
            return facts.run if known and len(facts.run.history) > 2 else None

        run = until(run_after_two)
        assert run.progress is not None
        assert run.plan is not None
        last = run.progress.batch
        truth = until(lambda: job.truth(query) if last in job.truth(query) else None)
        assert _batches(run, truth) > 2
        uses = 2 if query == "each" else 1
        states = [
            (state["numRowsTotal"] // uses, state["numRowsDroppedByWatermark"] // uses)
            for state in truth[run.progress.batch]["stateOperators"]
        ]
        assert [(state.rows, state.dropped_at_least) for state in run.progress.states] == states
        [node] = run.plan.nodes
        assert (node.column, node.delay_ms) == (
            "t",
            {"counts": 1_500, "plain": 45_000, "seen": 2_000, "each": 7_000}[query],
        )
        seen: Snapshot = watch.picture("x", watch.poll(), time.time_ns() // 1_000_000).snapshot
    assert seen.level.watermark_ms is not None
    is_shown_later = query == "plain" and seen.spark.in_flight  # by the page, once the batch has ended
    assert seen.spark.batch_watermark_ms == (None if is_shown_later else seen.level.watermark_ms)
    assert (seen.spark.watermark_ms, seen.spark.max_event_ms, seen.sources, seen.channels) == (None, None, None, [])
    assert (seen.windows.open_count, seen.level.holder, seen.spark.state_bytes) == (None, None, None)
    if seen.spark.dropped_exact:  # of all batches, and nothing is aggregated before
        assert (query, seen.batch is not None) == ("seen", True)
        truth = until(lambda: job.truth(query) if seen.batch in job.truth(query) else None)
        dropped = [one["stateOperators"][0]["numRowsDroppedByWatermark"] for n, one in truth.items() if n <= seen.batch]
        assert seen.spark.dropped_at_least == sum(dropped)
    else:
        assert query != "seen" or run.history[0].batch > 0


def test_a_history_server_has_what_the_query_reports(job: Job) -> None:
    """The checkpoint that the log names is on this machine, and is still not read."""
    with closing(_opened(job.history, "counts")) as watch:
        watch.open()
        first = watch.poll()
        assert first.checkpoint is None
        assert (job.directory / "counts" / "offsets").is_dir()
        later = until(lambda: facts if (facts := watch.poll()).run.progress.batch > first.run.progress.batch else None)
        assert later.run.history[0] == first.run.history[0]
        truth = until(lambda: job.truth("counts") if later.run.progress.batch in job.truth("counts") else None)
        assert _batches(later.run, truth) > 6
        report = truth[later.run.progress.batch]
        assert later.run.max_event_ms == max(
            _ms(one["eventTime"]["max"])
            for number, one in truth.items()
            if number <= report["batchId"] and "max" in one["eventTime"]
        )
        assert [state.rows for state in later.run.progress.states] == [
            state["numRowsTotal"] for state in report["stateOperators"]
        ]


@pytest.mark.parametrize("by", ["driver", "history", "event log"])
@pytest.mark.parametrize("query", ["counts", "broken"])
def test_no_look_at_a_query_by_a_server_or_its_log_contradicts_itself(job: Job, by: str, query: str) -> None:
    """Semantics 11.1, invariants (a) to (e); `broken` has failed meanwhile."""
    [log] = (job.directory / "logs").iterdir()
    addresses = {"driver": job.driver, "history": job.history, "event log": str(log)}
    with closing(_opened(addresses[by], query)) as target:
        target.open()
        follower = Follower(target, "q", LOOK_PATIENCE_MS)

        def looks() -> Iterator[Snapshot]:
            for _ in range(LOOKS):
                yield follower.snapshot(target.poll())
                time.sleep(LOOK_S)

        assert check_all(looks()).total() == LOOKS


def test_an_application_is_found_by_its_id_name_and_nearly(job: Job) -> None:
    [listed] = applications(job.history_port)
    for wanted in (listed["id"], "shop"):
        assert open_target(f"{job.history}/{wanted}", TargetOptions(query="plain")).name == "plain"
    for address in (f"{job.history}/shopp", f"{job.driver}/shopp"):
        with refused(UsageError, "no_application", "shop"):
            open_target(address, TargetOptions(query="plain"))
    for address in (job.history, job.driver):
        with refused(UsageError, "which_query", *QUERIES):
            _opened(address).open()
        with refused(UsageError, "no_query", *QUERIES):
            _opened(address, "count").open()
    with refused(UsageError, "", "/1"):
        open_target(f"{job.history}/{listed['id']}/1", TargetOptions(query="plain"))


def _states(target: Any, state: str) -> Snapshot:
    """The first snapshot in that state."""
    follower = Follower(target, "x")
    return until(lambda: seen if (seen := follower.snapshot(target.poll())).state == state else None)


def _waiting(target: Any) -> Snapshot:
    """The first snapshot that says that the query perhaps waits for its trigger; none before it is a bad one."""
    follower = Follower(target, "x")

    def look() -> Snapshot | None:
        seen = follower.snapshot(target.poll())
        assert seen.state in ("live", "partial")
        assert seen.verdict.verdict in ("unknown", "waiting")
        return seen if "pause_unknown" in [note.code for note in seen.notes] else None

    return until(look)


@pytest.mark.parametrize("by", ["driver", "history"])
def test_a_query_with_a_long_trigger_is_neither_stale_nor_stalled(job: Job, by: str) -> None:
    """Neither shows the trigger's interval: whether it waits, is idle or has stopped is not known."""
    with closing(_opened(job.driver if by == "driver" else job.history, "hourly")) as watch:
        watch.open()
        assert _waiting(watch).batch == 0


def test_queries_that_failed_and_stopped_and_a_driver_that_is_gone(job: Job) -> None:
    with closing(_opened(job.driver, "broken")) as watch:
        watch.open()
        assert "no such shop" in str(_states(watch, "failed").error)
    with closing(_opened(job.driver, "seen")) as watch:
        watch.open()
        assert watch.poll().report.alive is True
        job.order("stop")
        assert "stopped" in [note.code for note in _states(watch, "ended").notes]
    with closing(_opened(job.driver, "plain")) as driver, closing(_opened(job.history, "plain")) as history:
        driver.open()
        history.open()
        job.order("quit")
        gone = _states(driver, "stale")
        assert [note for note in gone.notes if note.code == "unreadable" and "no answer" in str(note.args["why"])]
        over = until(lambda: facts if (facts := history.poll()).report.alive is False else None)
        assert over.run.progress.batch == max(job.truth("plain"))


@pytest.mark.matrix
def test_without_a_statistics_page_the_gauge_has_the_watermark_of_a_query_without_state(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    job = Job(tmp_path, free_port(), 0)
    with _driver(job, "spark.sql.streaming.ui.enabled=false", "spark.sql.streaming.metricsEnabled=true"):
        until(lambda: True if _has_batches(job, 6) else None)
        until(lambda: applications(job.port))
        with closing(_opened(job.driver, "plain")) as watch:
            watch.open()
            facts = until(lambda: seen if (seen := watch.poll()).run.progress.watermark_ms is not None else None)
        batch, shown_ms = facts.run.progress.batch, facts.run.progress.watermark_ms
        truth = until(lambda: job.truth("plain") if batch + 2 in job.truth("plain") else None)
        # The gauge is of the moment in which it is asked for, which may be a batch later.
        assert shown_ms in [_ms(truth[batch + later]["eventTime"]["watermark"]) for later in (0, 1, 2)]


def _with_a_watermark(facts: QueryFacts) -> QueryFacts | None:
    """Facts whose last batch the driver had not forgotten before it was read."""
    progress = facts.run.progress
    return None if progress is None or progress.watermark_ms is None else facts


def test_a_driver_that_forgets_executions_still_shows_its_queries(tmp_path: Path) -> None:
    """`spark.sql.ui.retainedExecutions` is small: what failed long ago, what runs, and a count of drops without its
    beginning.
    """
    (tmp_path / "logs").mkdir()
    job = Job(tmp_path, free_port(), 0)
    with _driver(job, "spark.sql.ui.retainedExecutions=5"):
        until(lambda: True if _has_batches(job, 6) else None)
        until(lambda: applications(job.port))
        until(lambda: _has_forgotten(job, "broken"))
        with closing(_opened(job.driver, "broken")) as watch:
            watch.open()
            failed = _states(watch, "failed")
        assert ("no such shop" in str(failed.error), failed.spark.query_name) == (True, "broken")
        assert [note.code for note in failed.notes if note.code == "no_watermark"] == []
        assert "no data yet" not in summary(failed)
        with closing(_opened(job.driver, "hourly")) as watch:
            watch.open()
            rests = _waiting(watch)
        assert (rests.batch, rests.spark.query_name, rests.spark.dropped_at_least) == (0, "hourly", None)
        for query in QUERIES:
            with closing(_opened(job.driver, query)) as watch:
                watch.open()
                seen = until(lambda: _with_a_watermark(watch.poll()))
                assert (seen.run.ended, seen.report.alive, seen.report.trouble) == (False, True, None)
                assert {one.name: one.state for one in seen.report.siblings}["broken"] == "failed"
            truth = until(lambda: job.truth(query) if seen.run.progress.batch in job.truth(query) else None)  # noqa: B023
            dropped = [sum(state["numRowsDroppedByWatermark"] for state in truth[n]["stateOperators"]) for n in truth]
            assert seen.run.dropped_at_least is None or 0 < seen.run.dropped_at_least <= sum(dropped)
            assert seen.run.progress.watermark_ms == _ms(truth[seen.run.progress.batch]["eventTime"]["watermark"])


def _has_forgotten(job: Job, query: str) -> bool | None:
    """Whether no execution of the query is in the driver's own list; None: it still is, or one went meanwhile (404)."""
    path = f"http://127.0.0.1:{job.port}/api/v1/applications"
    with urllib.request.urlopen(path, timeout=30) as answer:
        [application] = json.load(answer)
    try:
        with urllib.request.urlopen(f"{path}/{application['id']}/sql?details=false", timeout=30) as answer:
            return query not in answer.read().decode() or None
    except urllib.error.HTTPError as error:
        if error.code == 404:
            return None
        raise
