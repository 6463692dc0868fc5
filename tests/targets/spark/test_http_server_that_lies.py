"""Servers that are no Spark, or a broken or hostile one: one line each, which names the server or the bound."""

import io
import json
import threading
import time
import zipfile
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from wmtop.engine.system import rest
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.rest import Rest, RestError, RestSecurity
from wmtop.engine.targets import open as opening
from wmtop.engine.targets.open import open_target
from wmtop.engine.targets.spark import history_server
from wmtop.engine.targets.spark.driver_answers import ListedRun, statuses_in, watermarks_in
from wmtop.engine.targets.spark.history_server import SPARK_HTTP, Attempt, Listed, Place, chosen, place_of
from wmtop.engine.targets.spark.plan import in_force_of, lines_of_formatted
from wmtop.engine.targets.target import AttachedTarget, NotReadyError, Target

from ...refusals import refused

JSON, ZIP = "application/json", "application/octet-stream"
APP = {"id": "app-1", "name": "shop", "attempts": [{"completed": False, "logSourceName": "file:/logs"}]}
PROGRESS = {"id": "a", "runId": "b", "name": "orders", "batchId": 7, "timestamp": "2026-01-01T00:00:00.000Z"}
EVENTS = (
    "\n".join(
        json.dumps(
            {"Event": f"org.apache.spark.sql.streaming.StreamingQueryListener$Query{kind}", **values},
            separators=(",", ":"),
        )
        for kind, values in (
            ("StartedEvent", {"id": "a", "runId": "b", "name": "orders"}),
            ("ProgressEvent", {"progress": PROGRESS}),
        )
    )
    + "\n"
)
RUN = "6ccdfc29-bf79-4400-80f9-22d62c9a70f8"
EXECUTIONS = "/api/v1/applications/app-1/sql?details=false&planDescription=false&offset=0&length=1000000"
Answer = tuple[int, str, bytes] | Callable[[BaseHTTPRequestHandler], None]


class Server:
    """Answers a GET of a path with what a test sets, of all others as a History Server with one application."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {
            "/api/v1/applications": (200, JSON, json.dumps([APP]).encode()),
            "/api/v1/applications/app-1": (200, JSON, json.dumps(APP).encode()),
            "/api/v1/applications/app-1/logs": (200, ZIP, zipped({"app-1.inprogress": EVENTS})),
        }
        self.methods: set[str] = set()
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.methods.add(self.command)
                answer = server.answers.get(self.path, (404, "text/plain", b"no such app"))
                if callable(answer):
                    answer(self)
                    return
                self.send_response(answer[0])
                self.send_header("Content-Type", answer[1])
                self.send_header("Content-Length", str(len(answer[2])))
                self.end_headers()
                self.wfile.write(answer[2])

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.address = f"spark+http://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def logs(self, answer: Answer) -> None:
        self.answers["/api/v1/applications/app-1/logs"] = answer

    def first(self, path: str, answer: Answer) -> None:
        """The next answer at a path, before the present one."""
        later = self.answers[path]

        def once(handler: BaseHTTPRequestHandler) -> None:
            self.answers[path] = answer
            handler.do_GET()  # type: ignore[attr-defined]
            self.answers[path] = later

        self.answers[path] = once

    def be_driver(self) -> None:
        """Answer as a driver with a batch of one query."""
        batch = {"id": 0, "status": "COMPLETED", "description": f"orders\nid = {RUN}\nrunId = {RUN}\nbatch = 0"}
        self.answers |= {
            "/api/v1/applications": (200, JSON, json.dumps([{**APP, "attempts": [{"completed": False}]}]).encode()),
            "/metrics/json/": (200, "text/json", b"{}"),
        }
        self.executes([batch])

    def executes(self, executions: list[dict[str, Any]]) -> None:
        """Answer with these SQL executions, listed and one by one."""
        self.answers[EXECUTIONS] = (200, JSON, json.dumps(executions).encode())
        for one in executions:
            self.answers[f"/api/v1/applications/app-1/sql/{one['id']}"] = (200, JSON, json.dumps(one).encode())


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Nobody waits until it is ready, unless a test says so."""
    monkeypatch.setattr(opening, "ASK_AGAIN_S", 0.0)
    monkeypatch.setattr(opening, "READY_WITHIN_S", 0.0)
    made = Server()
    yield made
    made.http.shutdown()


def zipped(files: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return out.getvalue()


def dripping(piece: bytes) -> Callable[[BaseHTTPRequestHandler], None]:
    """An answer that never ends: the same piece again and again."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n[")
        try:
            while True:
                handler.wfile.write(piece)
        except OSError:
            pass

    return answer


def endless_header(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
    try:
        while True:
            handler.wfile.write(b"x" * 100)
            threading.Event().wait(0.05)
    except OSError:
        pass


def test_a_true_log_is_read(server: Server) -> None:
    opened = open_target(f"{server.address}/app-1")
    assert isinstance(opened, AttachedTarget)
    opened.target.open()
    assert opened.target.poll().run.progress.batch == 7
    opened.target.close()
    assert server.methods == {"GET"}


def test_nothing_ages_in_a_log_until_it_is_fetched_again(server: Server) -> None:
    """The next fetch of a large log may come a minute later: no stall and no silence follow from that."""
    began_ms = time.time_ns() // 1_000_000
    opened = open_target(f"{server.address}/app-1")
    assert isinstance(opened, AttachedTarget)
    with closing(opened.target) as watch:
        watch.open()
        facts, later_ms = watch.poll(), time.time_ns() // 1_000_000 + 90_000
        shown = watch.picture("orders", facts, later_ms).snapshot
        assert began_ms <= (shown.now_ms or 0) <= later_ms - 90_000
        assert shown.wall_ms == later_ms
        server.answers["/api/v1/applications/app-1"] = (503, "text/html", b"")
        assert watch.picture("orders", watch.poll(), later_ms).snapshot.now_ms == later_ms  # it does not answer now


@pytest.mark.parametrize(("took_s", "every_s"), [(0.125, 2.0), (3.0, 30.0), (20.0, 60.0)])
def test_fetches_of_a_log_take_a_tenth_of_the_time_and_come_once_a_minute(
    server: Server, monkeypatch: pytest.MonkeyPatch, took_s: float, every_s: float
) -> None:
    now_s, fetches = [1_000.0], list[float]()
    monkeypatch.setattr(history_server, "time", SimpleNamespace(monotonic=lambda: now_s[0], time_ns=time.time_ns))
    answer = server.answers["/api/v1/applications/app-1/logs"]

    def takes_long(handler: BaseHTTPRequestHandler) -> None:
        now_s[0] += took_s
        fetches.append(now_s[0])
        server.logs(answer)
        handler.do_GET()  # type: ignore[attr-defined]
        server.logs(takes_long)

    server.logs(takes_long)
    with watched(server) as watch:
        assert watch.every_s == every_s
        while len(fetches) < 3:  # the server does not report that it grew
            now_s[0] += watch.every_s
            watch.poll()
        between_s = fetches[-1] - fetches[-2] - took_s
        assert max(10.0, every_s) <= between_s < max(10.0, every_s) + every_s
        grown = {**APP, "attempts": [{"completed": False, "lastUpdatedEpoch": 1}]}
        server.answers["/api/v1/applications/app-1"] = (200, JSON, json.dumps(grown).encode())
        watch.poll()
        assert len(fetches) == 4


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ((500, "text/html", b"<html>"), "HTTP 500"),
        ((200, "text/html", b"<html>sign in</html>"), "text/html"),
        ((302, JSON, b""), "redirects"),
        ((401, JSON, b""), "WMTOP_SPARK_TOKEN"),
        ((200, JSON, b'{"id": 1}'), "Spark's REST API"),
        ((200, JSON, b"[" * 100_000), "Spark's REST API"),
        ((200, JSON, b'[{"id": "a", "attempts": [{"startTimeEpoch": ' + b"9" * 400 + b"}]}]"), "20 digits"),
        ((200, JSON, b'[{"id": "a", "attempts": [{"startTimeEpoch": 1e400}]}]'), "Spark's REST API"),
        ((200, JSON, b'[{"id": "\\ud800"}]'), "Spark's REST API"),
        ((200, JSON, b"[]"), "no application"),
    ],
)
def test_a_list_that_is_none(server: Server, answer: Answer, named: str) -> None:
    server.answers["/api/v1/applications"] = answer
    with refused(UsageError, "", named, "127.0.0.1"):
        open_target(f"{server.address}/app-1")


BIG_LIST = bytes(30) + b"PK\5\6" + bytes(4) + b"\1\0\1\0" + (1 << 30).to_bytes(4, "little") + bytes(6)


def _bomb() -> bytes:
    """Its list says that it unpacks to 3 GB."""
    data = bytearray(zipped({"app-1": EVENTS}))
    at = data.index(b"PK\1\2") + 24
    data[at : at + 4] = (3 * 1024**3).to_bytes(4, "little")
    return bytes(data)


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "cut short"),
        (b"PK\5\6" + bytes(18), "empty"),
        (b"not a zip" * 100, "cut short"),
        (zipped({"app-1": EVENTS})[:-30] + b"x" * 30, "cut short"),
        (zipped({"app-1": EVENTS}).replace(b"PK\3\4", b"PK\3\5"), "no usable zip"),
        (BIG_LIST, "8 MB"),
        (zipped({"../../evil": EVENTS}), "evil"),
        (zipped({"/tmp/evil": EVENTS}), "evil"),
        (zipped({"..\\evil": EVENTS}), "evil"),
        (zipped({"eventlog_v2_a/..": EVENTS}), ".."),
        (zipped({"eventlog_v2_a/events_x": EVENTS}), "events_x"),
        (zipped({"app-1_1": EVENTS, "app-1_2": EVENTS}), "2 event logs"),
        (zipped({"app-1.lz4": EVENTS}), "lz4"),
        (zipped({"app-1": "no events"}), "event log"),
        (_bomb(), "2 GB"),
    ],
    ids=range(15),
)  # fmt: skip
def test_a_zip_that_is_no_log(server: Server, body: bytes, named: str, tmp_path: Path) -> None:
    server.logs((200, ZIP, body))
    with refused(UsageError, "", named):
        open_target(f"{server.address}/app-1")
    assert not Path("/tmp/evil").exists()


def test_bounds_in_bytes_and_seconds(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers["/api/v1/applications"] = dripping(b" " * 65_536)
    with refused(UsageError, "", "32 MB"):
        open_target(f"{server.address}/app-1")
    monkeypatch.setattr(rest, "ANSWER_S", 1.0)
    for answer in (dripping_slowly, endless_header):
        server.answers["/api/v1/applications"] = answer
        with refused(UsageError, "", "1s"):
            open_target(f"{server.address}/app-1")
    server.answers["/api/v1/applications"] = (200, JSON, json.dumps([APP]).encode())
    monkeypatch.setattr(history_server, "LOG_LIMIT", 1 << 20)
    server.logs((200, ZIP, bytes(2 << 20)))
    with refused(UsageError, "", "1 MB"):
        open_target(f"{server.address}/app-1")


def dripping_slowly(handler: BaseHTTPRequestHandler) -> None:
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n[")
    try:
        while True:
            handler.wfile.write(b" ")
            threading.Event().wait(0.05)
    except OSError:
        pass


STARTS = (200, "text/html", b"Spark is starting up. Please wait a while until it's ready.")


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/api/v1/applications", STARTS),
        ("/api/v1/applications", (503, "text/html", b"<html>")),
        ("/api/v1/applications", (200, JSON, b"[]")),
        ("/api/v1/applications/app-1/logs", (500, "text/html", b"")),  # its name has just changed
        (EXECUTIONS, (404, "text/plain", b"no such app: app-1")),
        (EXECUTIONS, (503, "text/plain", b"")),
        (EXECUTIONS, (200, JSON, b"[]")),
    ],
)
def test_a_server_that_is_not_ready_is_asked_again(
    server: Server, monkeypatch: pytest.MonkeyPatch, path: str, answer: tuple[int, str, bytes]
) -> None:
    if path not in server.answers:
        server.be_driver()
    server.first(path, answer)
    with monkeypatch.context() as patch:
        patch.setattr(opening, "READY_WITHIN_S", 60.0)
        said = list[str]()
        assert open_target(server.address, say=said.append).name == "orders"
        assert len(said) == (answer[0] != 404)  # an execution that is forgotten is asked for at once
    server.answers[path] = answer
    with refused(NotReadyError, "", server.address.removeprefix("spark+") if answer[0] != 404 else "no such app"):
        open_target(server.address)


def test_a_server_whose_first_answer_takes_long_is_asked_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    applications, may_answer = "/api/v1/applications", threading.Event()

    def hangs(handler: BaseHTTPRequestHandler) -> None:
        may_answer.wait(60.0)
        handler.close_connection = True

    monkeypatch.setattr(rest, "TIMEOUT_S", 0.2)
    usual, server.answers[applications] = server.answers[applications], hangs
    with refused(NotReadyError, "", server.address.removeprefix("spark+")):
        open_target(server.address)

    def is_up(line: str) -> None:
        server.answers[applications] = usual

    monkeypatch.setattr(opening, "READY_WITHIN_S", 60.0)
    assert open_target(server.address, say=is_up).name == "orders"
    may_answer.set()


@contextmanager
def watched(server: Server) -> Generator[Target[Any]]:
    """What follows the server, after it was opened."""
    opened = open_target(server.address)
    assert isinstance(opened, AttachedTarget)
    with closing(opened.target) as watch:
        watch.open()
        yield watch


def test_an_execution_that_is_forgotten_while_a_driver_lists_them_is_no_trouble(server: Server) -> None:
    server.be_driver()
    with watched(server) as watch:
        server.first(EXECUTIONS, (404, "text/plain", b"no such app: app-1"))
        assert watch.poll().report.trouble is None
        server.answers[EXECUTIONS] = (404, "text/plain", b"no such app: app-1")
        assert "no such app" in watch.poll().report.trouble


def test_a_query_that_was_started_again_runs(server: Server) -> None:
    server.be_driver()
    later = "9f7b7aca-04c7-4614-b999-3f15ac27b764"
    rows = (
        f'<tr><td>orders</td><td>{status}</td><td>{RUN}</td><td><a href="/StreamingQuery/statistics?id={run}">{run}</a>'
        f"</td></tr>"
        for run, status in ((later, "RUNNING"), (RUN, "FINISHED"))
    )
    server.answers["/StreamingQuery/"] = (200, "text/html", f"Active Streaming Queries (1){''.join(rows)}".encode())
    batches = [
        {"id": n, "status": "COMPLETED", "description": f"orders\nid = {RUN}\nrunId = {run}\nbatch = {n}"}
        for n, run in enumerate((RUN, later))
    ]
    server.executes(batches)
    with watched(server) as watch:
        facts = watch.poll()
        assert (facts.run.run_id, facts.run.ended, facts.batch) == (later, False, 1)


@pytest.mark.parametrize(("first", "second"), [(("6", "3"), ("6", "3")), (("6", "3"), ("0", "0")), (("0", "0"),) * 2])
def test_a_foreach_batch_function_of_several_actions_counts_as_one_of_them(
    server: Server, first: tuple[str, str], second: tuple[str, str]
) -> None:
    """As in Spark 4.3.0: each action computes the batch again, or reads what `persist` kept and counts 0."""
    server.be_driver()

    def execution(number: int, counted: tuple[str, str] | None) -> dict[str, Any]:
        names = ("number of total state rows", "number of rows which are dropped by watermark")
        metrics = [{"name": name, "value": value} for name, value in zip(names, counted or (), strict=bool(counted))]
        return {
            "id": number, "status": "COMPLETED", "submissionTime": "2026-01-01T00:00:00.000GMT", "rootExecutionId": 0,
            "description": f"orders\nid = {RUN}\nrunId = {RUN}\nbatch = 0",
            "nodes": [{"nodeId": 4, "nodeName": "StateStoreSave", "metrics": metrics}],
        }  # fmt: skip

    server.executes([execution(0, None), execution(1, first), execution(2, second)])
    with watched(server) as watch:
        seen = watch.picture("x", watch.poll(), 1_767_225_700_000).snapshot
        rows, dropped = map(int, first)
        assert (seen.spark.dropped_at_least, seen.spark.state_rows) == (dropped, rows)
        assert [one.rows for one in seen.spark.operators or ()] == [rows]


@pytest.mark.parametrize(("status", "in_force_ms"), [("RUNNING", 30_000), ("RUNNING", None), ("FAILED", 30_000)])
def test_the_watermark_in_force_in_a_batch_that_runs_or_failed_is_its_own(
    server: Server, status: str, in_force_ms: int | None
) -> None:
    server.be_driver()

    def batch(number: int, status: str, operator: str, in_force_ms: int | None) -> dict[str, Any]:
        return {
            "id": number, "status": status, "submissionTime": "2026-01-01T00:00:00.000GMT",
            "description": f"orders\nid = {RUN}\nrunId = {RUN}\nbatch = {number}",
            "planDescription": f"== Physical Plan ==\nWrite (2)\n+- {operator} (1)\n\n\n"
            f"(1) {operator}\nArguments: [a], state info [ checkpoint = x, runId = 1, opId = 0, ver = 1], "
            f"Append, 1, {in_force_ms}, 2\n\n(2) Write\nArguments: x\n\n",
        }  # fmt: skip

    operator = "StateStoreSave" if in_force_ms else "Project"
    server.executes([batch(0, "COMPLETED", "StateStoreSave", 15_000), batch(1, status, operator, in_force_ms)])
    with watched(server) as watch:
        for _ in range(2):
            seen = watch.picture("x", watch.poll(), 1_767_225_700_000).snapshot
            assert (seen.batch, seen.spark.batch_watermark_ms) == (1, in_force_ms)
            assert seen.spark.in_flight is (status == "RUNNING")
            assert seen.level.watermark_ms == (in_force_ms or 15_000)


def test_another_query_of_the_driver_never_takes_the_place_of_the_one_that_is_watched(server: Server) -> None:
    server.be_driver()
    with watched(server) as watch:
        names = [("orders", RUN), ("returns", RUN.replace("2", "3"))]
        server.executes(
            [
                {"id": n, "status": "COMPLETED", "description": f"{name}\nid = {id}\nrunId = {id}\nbatch = 0"}
                for n, (name, id) in enumerate(names)
            ]
        )
        watch.poll()
        assert watch.poll().run.name == "orders"


def test_the_newest_attempt_is_read_or_the_wanted_one(server: Server) -> None:
    attempts = [{"attemptId": str(n), "startTimeEpoch": n, "completed": n == 1} for n in (1, 2)]
    server.answers["/api/v1/applications/app-1"] = (200, JSON, json.dumps({**APP, "attempts": attempts}).encode())
    for n in (1, 2):
        text = EVENTS.replace("orders", f"orders{n}")
        server.answers[f"/api/v1/applications/app-1/{n}/logs"] = (200, ZIP, zipped({f"app-1_{n}": text}))
    assert open_target(f"{server.address}/app-1").name == "orders2"
    assert open_target(f"{server.address}/app-1/1").name == "orders1"
    with refused(UsageError, "", "app-1/3", "2, 1"[:1]):
        open_target(f"{server.address}/app-1/3")


def test_rolled_files_are_read_by_their_number_and_followed(server: Server) -> None:
    head, tail, _ = EVENTS.split("\n")
    files = {f"eventlog_v2_a/events_{n}_a": "" for n in range(2, 11)}
    files |= {"eventlog_v2_a/appstatus_a.inprogress": "", "eventlog_v2_a/events_1_a": head + "\n"}
    server.logs((200, ZIP, zipped({**files, "eventlog_v2_a/events_10_a": tail[:50]})))
    opened = open_target(f"{server.address}/app-1")
    assert isinstance(opened, AttachedTarget)
    opened.target.open()
    assert opened.target.poll().run.progress is None
    grown = {**APP, "attempts": [{"completed": True, "lastUpdatedEpoch": 1, "logSourceName": "x"}]}
    server.answers["/api/v1/applications/app-1"] = (200, JSON, json.dumps(grown).encode())
    server.logs(
        (200, ZIP, zipped({**files, "eventlog_v2_a/events_1_a": head + "\n", "eventlog_v2_a/events_10_a": tail + "\n"}))
    )
    assert opened.target.poll().run.progress.batch == 7
    server.logs((503, "text/html", b""))
    assert opened.target.poll().report.trouble is None  # it has ended: it is not asked for again
    server.answers["/api/v1/applications/app-1"] = (503, "text/html", b"")
    assert "HTTP 503" in opened.target.poll().report.trouble
    opened.target.close()


@pytest.mark.parametrize(
    ("address", "place"),
    [
        ("spark+http://h:18080", Place("http://h:18080")),
        ("spark+http://h:18080/", Place("http://h:18080")),
        ("spark+http://h:18080/app-1", Place("http://h:18080", "app-1")),
        ("spark+https://h/spark/prod/app-1/2", Place("https://h/spark/prod", "app-1", "2")),
        ("spark+https://h/proxy/app-1/", Place("https://h/proxy/app-1")),
        ("spark+http://h:1/x/history/app-1/2/jobs/", Place("http://h:1/x", "app-1", "2")),
        ("spark+http://h:1/history/app-1/jobs/", Place("http://h:1", "app-1")),
        ("spark+http://h:1/my%20job", Place("http://h:1", "my job")),
    ],
)
def test_addresses(address: str, place: Place) -> None:
    assert place_of(address) == place


@pytest.mark.parametrize(
    "address",
    [
        "spark+http://",
        "spark+http://[::1",
        "spark+http://h:x",
        "spark+http://me:secret@h",
        "spark+http://h:99999/" + "x" * 9,
    ],
)
def test_addresses_that_are_none(address: str) -> None:
    with refused(UsageError) as _:
        open_target(address)


@pytest.mark.parametrize("secret", ["a\nb", "a\x1bb", "tok\u2028en", "t\u00f6ken"])
def test_a_secret_that_no_header_takes_is_never_printed(monkeypatch: pytest.MonkeyPatch, secret: str) -> None:
    monkeypatch.setenv("WMTOP_SPARK_TOKEN", secret)
    with pytest.raises(UsageError, match="WMTOP_SPARK_TOKEN") as error:
        Rest("http://127.0.0.1:9", RestSecurity(), SPARK_HTTP)
    assert secret not in str(error.value)
    monkeypatch.setenv("WMTOP_SPARK_TOKEN", "abc\n")
    with pytest.raises(RestError, match="refused") as refusal:
        Rest("http://127.0.0.1:9", RestSecurity(), SPARK_HTTP).read("/", JSON)
    assert "abc" not in str(refusal.value)


def test_pages_that_are_not_as_expected_say_nothing() -> None:
    page = "var v7 = [{}];\ndrawTimeline('#watermark-gap-timeline', v7, 1, 2, 0.0, 49.0, 'seconds');"
    assert watermarks_in(page.replace("{}", '{"x": 1795543656918, "y": 48.976}')) == [(1795543656918, 1795543607942)]
    for points in ("{}", '{"x": "1", "y": 2}', '{"x": 1, "y": 1e999}', "x", '{"x": 1, "y": null}', "[" * 9_999):
        assert watermarks_in(page.replace("{}", points)) == []
    assert watermarks_in("") == watermarks_in(page.replace("v7,", "v8,")) == []
    link = f'<a href="/StreamingQuery/statistics?id={RUN}">{RUN}</a>'
    row = f"<tr><td>n</td><td>FAILED</td><td>i</td><td>{link}</td><td>a &lt; b</td></tr>"
    assert statuses_in(f"Active Streaming Queries (1){row}") == {RUN: ListedRun("i", "n", "FAILED", None, "a < b")}
    for other in (row.replace("FAILED", "SLEEPS"), row.replace("<td>n</td>", "")):
        assert statuses_in(f"Active Streaming Queries (1){other}") is None
    assert statuses_in("<html>") is None


def test_the_watermark_in_force_is_that_of_the_operators_next_to_the_sources() -> None:
    def plan(upper: str, lower: str) -> str:
        state = "state info [ checkpoint = file:/x/state, runId = 1, opId = 0, ver = 1] stateStoreCkptIds = None"
        return (
            "== Physical Plan ==\nWrite (3)\n+- StateStoreSave (2)\n   +- * StreamingDeduplicate (1)\n\n\n"
            f"(1) StreamingDeduplicate [codegen id : 1]\nInput [1]: [a]\nArguments: [a], {state}, {lower}\n\n"
            f"(2) StateStoreSave\nArguments: [a], {state}, {upper}\n\n(3) Write\nArguments: x\n\n"
        )

    assert in_force_of(lines_of_formatted(plan("Update, 1, 2, 2", "3, 4"))) == 4
    for of_pyspark_4_3 in (
        "2, Update, EventTimeTimeout, 1795853685660, 1750000130000, 1750000190000, false",
        "1795853811631, 1795853810439, 1750000130000, 1750000190000, pandas, true, false, [key#1]",
        "1795853789584, 1750000130000, 1750000190000, pandas, true, false, [key#11]",
        "1749999976000, 1750000190000, state cleanup [ left value predicate: (lt#298 <= 1) ], 2, Append",
    ):
        assert in_force_of(lines_of_formatted(plan("Update, 1, 2, 2", of_pyspark_4_3))) == 1_750_000_190_000
    assert isinstance(in_force_of(lines_of_formatted(plan("Update, 1, 2, 2", "x"))), type(in_force_of(())))


def test_an_application_whose_end_is_not_recorded_is_not_said_to_run() -> None:
    """A killed application never ends in its History Server's list."""
    listed = [Listed(f"app-{number}", "shop", (Attempt(),)) for number in range(2)]
    for wanted in (None, "shop"):
        with pytest.raises(UsageError, match=r"2 applications .*not ended.*app-0 .shop, not ended.") as error:
            chosen(listed, Place("http://history:18080", wanted))
        assert "run" not in str(error.value)
