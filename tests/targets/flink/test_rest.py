"""The REST client against a server of ours: credentials, redirects, foreign answers."""

import base64
import os
import ssl
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from msgspec.json import encode
from msgspec.structs import replace
from wmtop.engine.doctor import diagnose
from wmtop.engine.system.errors import UsageError
from wmtop.engine.system.rest import RestError, RestSecurity
from wmtop.engine.targets.flink.facts import FlinkFacts
from wmtop.engine.targets.flink.rest import (
    LOGIN_VARIABLE,
    TOKEN_VARIABLE,
    Collector,
    FlinkRest,
    JobsOverview,
    batches,
    clock_columns,
    duration_ms,
    is_untimed,
    join_delay_ms,
    windows_per_record,
)
from wmtop.engine.targets.flink.samples import (
    Edge,
    Graph,
    JobSample,
    ListedJob,
    Vertex,
    last_operator,
    sample_of,
    wanted,
)
from wmtop.engine.targets.flink.watch import FlinkWatch, chosen, place_of, refuse_unknown, successor
from wmtop.engine.watermarks.times import MAX

from .attributed import snapshot

JOBS = b'{"jobs": []}'


class Server:
    """Answers every GET with what a test sets, and remembers what was asked."""

    def __init__(self, context: ssl.SSLContext | None = None) -> None:
        self.answer: tuple[int, dict[str, str], bytes] = (200, {}, JOBS)
        self.asked: list[tuple[str, dict[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.asked.append((self.path, dict(self.headers)))
                status, headers, body = server.answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if context is not None:
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.http.server_port}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()


def jobs(url: str, security: RestSecurity = RestSecurity()) -> JobsOverview:  # noqa: B008 - frozen
    return FlinkRest(url, security).get("/jobs/overview", JobsOverview)


def test_a_prefix_of_a_proxy_is_kept(server: Server) -> None:
    jobs(f"{server.url}/flink/prod/")
    assert server.asked[0][0] == "/flink/prod/jobs/overview"


@pytest.mark.parametrize(
    ("variables", "file", "expected"),
    [
        ({TOKEN_VARIABLE: "abc"}, None, "Bearer abc"),
        ({LOGIN_VARIABLE: "me:secret"}, None, "Basic " + base64.b64encode(b"me:secret").decode()),
        ({}, "abc\n", "Bearer abc"),
        ({TOKEN_VARIABLE: "other"}, "me:secret\n", "Basic " + base64.b64encode(b"me:secret").decode()),
        ({}, None, None),
    ],
)
def test_credentials_come_from_the_environment_or_a_file(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], file: str | None,
    expected: str | None,
) -> None:  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    secret = tmp_path / "secret"
    if file is not None:
        secret.write_text(file)
    jobs(server.url, RestSecurity(auth_file=secret if file is not None else None))
    assert server.asked[0][1].get("Authorization") == expected


def test_a_redirect_is_not_followed_with_credentials(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TOKEN_VARIABLE, "abc")
    other = Server()
    server.answer = (302, {"Location": f"{other.url}/login"}, b"")
    with pytest.raises(RestError, match=f"redirects to {other.url}/login: give"):
        jobs(server.url)
    server.answer = (302, {"Location": f"{other.url}/jobs/overview"}, b"")
    with pytest.raises(RestError, match=f"redirects to {other.url}: give that address"):
        jobs(server.url)
    server.answer = (302, {"Location": "http://x/\x1b]0;y\x07"}, b"")
    with pytest.raises(RestError, match="redirects to") as error:
        jobs(server.url)
    assert str(error.value).isprintable()
    assert not other.asked
    other.http.shutdown()


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ((200, {}, b"<html>sign in</html>"), "does not answer as Flink"),
        ((200, {}, b'{"jobs": 3}'), "does not answer as Flink"),
        ((401, {}, b""), TOKEN_VARIABLE),
        ((404, {}, b'{"errors": ["org.x.NotFound: Job 1 not found\\n\\tat a.b.C(C.java:1)"]}'), "Job 1 not found"),
        ((500, {}, b'{"errors": ["Internal", "a.B: outer\\n\\tat x\\nCaused by: c.D: the reason"]}'), "the reason"),
        ((503, {}, b"busy"), "HTTP 503"),
    ],
)
def test_what_is_wrong_is_one_line(server: Server, answer: tuple[int, dict[str, str], bytes], said: str) -> None:
    server.answer = answer
    with pytest.raises(RestError) as error:
        jobs(server.url)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_no_server_listens() -> None:
    with pytest.raises(RestError, match=r"no answer from http://127\.0\.0\.1:9: Connection refused"):
        jobs("http://127.0.0.1:9")


def test_tls_with_a_certificate_authority_and_a_client_certificate(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("client").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "client.pem"))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    server = Server(context)
    both = RestSecurity(ca_file=tmp_path / "ca.pem", client_certificate=tmp_path / "client.pem")
    assert jobs(server.url, both).jobs == []
    with pytest.raises(RestError, match=r"no answer.*--client-cert"):
        jobs(server.url, RestSecurity(ca_file=tmp_path / "ca.pem"))
    with pytest.raises(RestError, match=r"certificate.*--ca-file"):
        jobs(server.url)
    with pytest.raises(RestError, match=r"no answer from [^(]*$"):
        jobs(server.url.replace("https", "http"))
    server.http.shutdown()


def test_tls_on_a_plain_port(server: Server) -> None:
    with pytest.raises(RestError, match="give http://"):
        jobs(server.url.replace("http", "https"))


@pytest.mark.parametrize("url", ["flink:8081", "http://", "http://me:secret@host:1"])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(UsageError):
        FlinkRest(url, RestSecurity())


@pytest.mark.parametrize("option", ["ca_file", "client_certificate", "auth_file"])
def test_a_pipe_as_a_security_file_does_not_hang(tmp_path: Path, option: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="it is not a regular file"):
        FlinkRest("https://127.0.0.1:9", RestSecurity(**{option: tmp_path / "pipe"}))


def test_openssl_does_not_ask_for_the_password_of_a_key(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    issued, path = trustme.CA().issue_cert("client"), tmp_path / "client.pem"
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"open sesame"))
    path.write_bytes(locked + issued.cert_chain_pems[0].bytes())
    with pytest.raises(UsageError, match=r"client\.pem"):
        FlinkRest("https://127.0.0.1:9", RestSecurity(client_certificate=path))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("security", "named"),
    [
        (RestSecurity(ca_file=Path("/no/ca.pem")), "/no/ca.pem"),
        (RestSecurity(client_certificate=Path("/no/client.pem")), "/no/client.pem"),
        (RestSecurity(auth_file=Path("/no/token")), "/no/token"),
    ],
)
def test_a_security_file_that_is_not_there_is_named(security: RestSecurity, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        FlinkRest("https://127.0.0.1:9", security)


@pytest.mark.parametrize(
    ("target", "url", "job"),
    [
        ("flink://host:8081", "http://host:8081", None),
        ("flink://host:8081/", "http://host:8081", None),
        ("flink://host:8081/my%20job", "http://host:8081", "my job"),
        ("https://proxy/flink/prod/", "https://proxy/flink/prod", None),
        ("https://proxy/flink/prod/orders", "https://proxy/flink/prod", "orders"),
        ("http://host:8081/#/job/running/0a1b/overview", "http://host:8081", "0a1b"),
        ("https://yarn:8090/proxy/app_1/#/job/0a1b", "https://yarn:8090/proxy/app_1", "0a1b"),
        ("http://host:8081/jobs/0a1b", "http://host:8081", "0a1b"),
    ],
)
def test_targets(target: str, url: str, job: str | None) -> None:
    assert place_of(target) == (url, job)


def test_which_job_is_meant() -> None:
    old, new = ListedJob("1", "orders", "FAILED", 1), ListedJob("2", "orders", "RUNNING", 2)
    other = ListedJob("3", "clicks", "RUNNING", 3)
    assert chosen([new, old], None, "http://x") == new
    assert chosen([old, new, other], "orders", "http://x") == new
    assert chosen([old, new, other], "1", "http://x") == old
    refused: list[tuple[list[ListedJob], str | None, Callable[[str], bool]]] = [
        ([new, other], None, lambda said: "orders (2" in said and "clicks (3" in said),
        ([new, other], "order", lambda said: "orders" in said),
        ([], None, lambda said: "no job runs" in said),
        ([new, ListedJob("4", "orders", "RUNNING", 4)], "orders", lambda said: "4" in said),
    ]
    for jobs_there, wanted_job, is_said in refused:
        with pytest.raises(UsageError) as error:
            chosen(jobs_there, wanted_job, "http://x")
        assert is_said(str(error.value))


def test_a_job_of_the_same_name_that_ran_beside_an_ended_one_is_not_its_successor() -> None:
    ended = ListedJob("1", "orders", "CANCELED", 10)
    beside, again = ListedJob("2", "orders", "RUNNING", 20), ListedJob("3", "orders", "INITIALIZING", 31)
    other = ListedJob("4", "clicks", "RUNNING", 40)
    assert successor([ended, beside, other], ended, alive_ms=30) is None
    assert successor([ended, beside, again, other], ended, alive_ms=30) == again
    assert successor([ended, again, replace(again, id="5")], ended, alive_ms=30) is None  # which one is not known


def test_an_operator_that_the_job_does_not_have_is_refused_with_the_list() -> None:
    source = Vertex("s", "Source: in", 1, "RUNNING")
    windows = [Vertex(id, f"per {id}", 1, "RUNNING", (Edge("s", forward=False),)) for id in ("hour", "day")]
    graph = Graph(ListedJob("1", "orders", "RUNNING", 1), 1, (source, *windows))
    refuse_unknown(graph, None)
    refuse_unknown(graph, "PER DAY")
    refuse_unknown(graph, "day")
    for wanted_operator in ("minute", "Source"):  # a source receives no watermark
        with pytest.raises(UsageError, match=f"--operator {wanted_operator}: .* per hour, per day$"):
            refuse_unknown(graph, wanted_operator)
    many = replace(graph, vertices=tuple(replace(windows[0], id=str(n), name=f"task {n}") for n in range(40)))
    with pytest.raises(UsageError, match=r"task 19 and 20 more$"):
        refuse_unknown(many, "minute")


def test_names_are_asked_for_in_pieces_that_flink_takes() -> None:
    ids = [f"{i}.Source:_ä/x.split.t-{i}.watermark.currentWatermark" for i in range(500)]
    pieces = batches(ids, 4_000)
    assert all(len(piece) <= 4_000 for piece in pieces)
    assert sum(piece.count(",") + 1 for piece in pieces) == 500
    assert "%C3%A4" in pieces[0]


def test_metrics_of_a_vertex() -> None:
    vertex = Vertex("v", "Source: in.a -> Map: b,c", 2, "RUNNING")
    values = {
        "0.Source__in_a.currentOutputWatermark": "5",
        "0.Map__b_c.currentOutputWatermark": "7",
        "0.Source__in_a.split.t_x-0.watermark.currentWatermark": "5",
        "0.Source__in_a.KafkaSourceReader.topic.t_x.partition.0.currentOffset": "-1",
        "1.Source__in_a.KafkaSourceReader.topic.t_x.partition.1.currentOffset": "41",
        "0.busyTimeMsPerSecond": "250.0",
        "1.busyTimeMsPerSecond": "NaN",
        "0.numRecordsOut": "3",
        "0.Source__in_a.watermarkAlignmentDrift": "-9223370336854775808",
        "1.Source__in_a.watermarkAlignmentDrift": "2500",
    }
    ids = wanted(vertex, values)
    assert "0.numRecordsOut" not in ids
    assert last_operator(vertex) == "Map__b_c"
    found, whole = sample_of(vertex, ids, {one: values[one] for one in ids})
    assert whole
    assert found.subtasks[0].output == 7
    assert [(split.id, split.watermark, split.offset) for split in found.subtasks[0].splits] == [("t_x-0", 5, None)]
    assert found.subtasks[1].splits[0].offset == 41
    assert (found.subtasks[0].busy, found.subtasks[1].busy) == (0.25, None)
    assert [task.drift_ms for task in found.subtasks] == [None, 2_500]
    assert not sample_of(vertex, ids, {})[1]
    assert not found.windowed
    for number in ("9" * 400, "9" * 5_000, "1e400", "1.0E300", "²"):  # no gauge has a number that is no long
        odd, _ = sample_of(vertex, ids, dict.fromkeys(ids, number))
        assert [(task.output, task.drift_ms, task.busy) for task in odd.subtasks] == [(None, None, None)] * 2
        assert [split.watermark for split in odd.subtasks[0].splits] == [None]
    for name in ("TumblingEventTimeWindows -> Sink: out", "EventTimeSessionWindows"):  # PyFlink's count no late records
        assert sample_of(replace(vertex, name=name), ids, {})[0].windowed


def test_operators_chained_to_a_source_receive_what_the_task_does_not() -> None:
    vertex = Vertex("v", "Source: in -> (Window -> Sink: Writer, Other -> Sink: Writer)", 1, "RUNNING")
    values = {
        "0.Source__in.currentOutputWatermark": "7",
        "0.Window.currentInputWatermark": "7",
        "0.Other.currentInputWatermark": "5",
        "0.Sink__Writer.currentInputWatermark": "4",
        "0.Window.numLateRecordsDropped": "2",
        "0.Other.leftNumLateRecordsDropped": "3",
        "0.Other.rightNumLateRecordsDropped": "0",
    }
    assert wanted(vertex, values) == sorted(values)
    of_task = [*values, "0.currentInputWatermark"]
    assert set(of_task) - set(wanted(vertex, of_task)) == {"0.Sink__Writer.currentInputWatermark"}
    first = replace(vertex, name="Window -> Other -> Sink: Writer")
    assert "0.Window.currentInputWatermark" not in wanted(first, of_task), "it is the task's"
    [task] = sample_of(vertex, list(values), values)[0].subtasks
    assert task.input == 5, "the lower one of those with windows"
    late = {"Window.numLate": 2, "Other.leftNumLate": 3, "Other.rightNumLate": 0}
    assert task.late == {f"{name}RecordsDropped": count for name, count in late.items()}
    without = {name: value for name, value in values.items() if "Dropped" not in name}
    [task] = sample_of(vertex, list(without), without)[0].subtasks
    assert task.input == 4, "the last operator"


def test_a_subtask_that_has_ended_while_others_run_is_at_the_end() -> None:
    """Flink 2.3.0, a bounded source: the JobManager keeps its last metrics, or has none, and the vertex is RUNNING."""
    vertex = Vertex("s", "Source: in", 3, "RUNNING")
    values = {f"{index}.Source__in.currentOutputWatermark": "7" for index in (0, 2)}
    found, whole = sample_of(vertex, list(values), values, dict.fromkeys((0, 1), "FINISHED"))
    assert ([task.output for task in found.subtasks], whole) == ([MAX, MAX, 7], True)
    found, whole = sample_of(vertex, list(values), values)
    assert ([task.output for task in found.subtasks], whole) == ([7, None, 7], False)


def test_which_subtasks_have_ended_is_asked_where_some_have() -> None:
    vertex = Vertex("v", "Source: in", 2, "RUNNING", tasks={"FINISHED": 1, "RUNNING": 1})
    kept = [{"id": f"{index}.Source__in.currentOutputWatermark", "value": "7"} for index in (0, 1)]
    answers: dict[str, object] = {
        "/jobs/j/vertices/v/backpressure": {"end-timestamp": 5_000},
        "/jobs/j/vertices/v": {"subtasks": [{"subtask": 0, "status": "FINISHED"}, {"subtask": 1, "status": "RUNNING"}]},
        "/jobs/j/vertices/v/metrics": kept,
    }

    class Frozen(FlinkRest):
        def read(self, path: str, content_type: str = "application/json") -> bytes:
            return encode(answers[path.partition("?")[0]])

    graph = Graph(ListedJob("j", "orders", "RUNNING", 0), 0, (vertex,))
    found = Collector(Frozen("http://jobmanager:8081", RestSecurity()), lambda _: None).sample(graph, 1_000)
    assert found is not None
    assert ([task.output for task in found.vertices[0].subtasks], found.whole) == ([MAX, 7], True)


def test_what_is_kept_of_tasks_that_do_not_run_is_not_their_watermark() -> None:
    """Flink 2.3.0, a task manager killed: the job is RUNNING while its tasks wait for slots, for minutes if need be."""
    values = [{"id": f"{index}.In.currentOutputWatermark", "value": "7"} for index in (0, 1)]
    answers = {
        "/jobs/j/vertices/v/backpressure": {"end-timestamp": 50_000},
        "/jobs/j/vertices/v/metrics": values,
        "/jobs/j/vertices/v/subtasks/metrics": [],
    }

    class Frozen(FlinkRest):
        def read(self, path: str, content_type: str = "application/json") -> bytes:
            tasks = [{"subtask": index, "status": state} for index, state in enumerate(states)]
            return encode({**answers, "/jobs/j/vertices/v": {"subtasks": tasks}}[path.partition("?")[0]])

    def outputs(started_ms: int) -> list[int | None] | None:
        status = "CREATED" if "SCHEDULED" in states else "RUNNING"
        vertex = Vertex("v", "In", 2, status, tasks=dict(Counter(states)), started_ms=started_ms)
        graph = Graph(ListedJob("j", "orders", "RUNNING", 0), 0, (vertex,))
        found = Collector(Frozen("http://jobmanager:8081", RestSecurity()), lambda _: None).sample(graph, 1_000)
        sent = None if found is None else [task.output for task in found.vertices[0].subtasks]
        assert found is None or found.whole == (sent == [7, 7])
        return sent

    for states, started_ms, seen in (
        (["SCHEDULED", "SCHEDULED"], 40_000, None),
        (["CANCELING", "RUNNING"], 40_000, [None, 7]),
        (["RUNNING", "RUNNING"], 49_500, [None, None]),  # the dump was requested while they were deployed
        (["RUNNING", "RUNNING"], 40_000, [7, 7]),
    ):
        assert outputs(started_ms) == seen, states


def test_a_single_look_waits_for_the_first_sample_of_a_job_that_runs() -> None:
    graph = Graph(ListedJob("j", "orders", "RUNNING", 0), 0)
    before = FlinkFacts(graph=graph, answered_ms=0)
    polls = [before, before, replace(before, samples=(JobSample(1_000, ()),))]

    class Slow(FlinkWatch):
        every_s = 0.0

        def poll(self) -> FlinkFacts:
            return polls.pop(0)

    watch = Slow("http://jobmanager:8081", None, None, RestSecurity())
    assert watch.look().sample is not None
    restarted = snapshot(replace(before, restarts=1, failure="a task manager was lost"), 0)
    assert (restarted.state, restarted.error) == ("stale", "a task manager was lost")
    [finding] = [each for each in diagnose(restarted, []) if each.code == "job-not-running"]
    assert finding.fixes[0].code == "check-job"
    assert snapshot(before, 0).state == "starting"


def test_a_dump_is_dated_by_a_task_that_still_runs() -> None:
    """Flink 2.3.0: a task that has ended reports no back pressure, so no date; a bounded source may be the first."""
    ended = Vertex("past", "Source: past", 1, "FINISHED", tasks={"FINISHED": 1})
    running = Vertex("now", "Source: now", 1, "RUNNING", tasks={"RUNNING": 1})
    answers: dict[str, object] = {
        "/jobs/j/vertices/past/backpressure": {"status": "deprecated"},
        "/jobs/j/vertices/now/backpressure": {"end-timestamp": 5_000},
        "/jobs/j/vertices/past/metrics": [],
        "/jobs/j/vertices/now/metrics": [{"id": "0.Source__now.currentOutputWatermark", "value": "7"}],
        "/jobs/j/vertices/past/subtasks/metrics": [],
        "/jobs/j/vertices/now/subtasks/metrics": [],
    }

    class Answering(FlinkRest):
        def read(self, path: str, content_type: str = "application/json") -> bytes:
            return encode(answers[path.partition("?")[0]])

    collector = Collector(Answering("http://jobmanager:8081", RestSecurity()), lambda _: None)
    found = collector.sample(Graph(ListedJob("j", "orders", "RUNNING", 0), 0, (ended, running)), 1_000)
    assert found is not None
    assert [task.output for vertex in found.vertices for task in vertex.subtasks] == [MAX, 7]
    assert collector.sample(Graph(ListedJob("j", "orders", "FINISHED", 0), 0, (ended,)), 1_000) is None


@pytest.mark.parametrize(
    ("window", "rows"),
    [
        ("TUMBLE(win_start=[a], win_end=[b], size=[1 min])", 1),
        ("HOP(win_start=[a], win_end=[b], size=[5 min], slide=[1 min])", 5),
        ("HOP(win_start=[a], win_end=[b], size=[1 min], slide=[45 s])", 2),
        ("CUMULATE(win_start=[a], win_end=[b], max_size=[1 d], step=[6 h])", 4),
        ("HOP(slice_end=[$slice_end], size=[5 min], slide=[1 min])", 1),
        ("HOP(win_start=[a], win_end=[b], size=[1 fortnight], slide=[1 min])", 1_000_000),
    ],
)
def test_in_how_many_windows_a_record_is_a_row_of_its_own(window: str, rows: int) -> None:
    assert windows_per_record(f"[40]:WindowRank(window=[{window}], select=[k])<br/>+- [41]:Calc") == rows


@pytest.mark.parametrize(
    ("window", "untimed"),
    [
        (
            "Window(TumblingEventTimeWindows(60000), EventTimeTrigger, Jobs$$Lambda$1552, PassThroughWindowFunction)",
            False,
        ),
        ("Window(SlidingEventTimeWindows(60000, 10000), EventTimeTrigger, CoGroupWindowFunction)", False),
        ("Window(TumblingEventTimeWindows(60000), MyTrigger, Jobs$$Lambda$1552, PassThroughWindowFunction)", False),
        ("Window(TumblingEventTimeWindows(60000), ContinuousProcessingTimeTrigger, Jobs$$Lambda$1532)", True),
        ("Window(TumblingProcessingTimeWindows(2000), ProcessingTimeTrigger, Jobs$$Lambda$1527)", True),
        ("Window(GlobalWindows(), PurgingTrigger, Jobs$$Lambda$1527, PassThroughWindowFunction)", True),
        ("Window(GlobalWindows(), ContinuousEventTimeTrigger, Jobs$$Lambda$1527)", False),
        ("Window(GlobalWindows(), CountTrigger)<br/>+- Window(TumblingEventTimeWindows(1), EventTimeTrigger)", False),
        ("[4]:WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[pt], size=[2 s])], select=[k])", True),
        ("[4]:WindowAggregate(groupBy=[k], window=[TUMBLE(time_col=[ts], size=[2 s])], select=[k])", False),
        ("[10]:GroupWindowAggregate(groupBy=[k], window=[TumblingGroupWindow('w$, pt, 2000)], select=[k])", True),
        ("[10]:GroupWindowAggregate(groupBy=[k], window=[TumblingGroupWindow('w$, ts, 2000)], select=[k])", False),
        ("[30]:GroupAggregate(groupBy=[k], select=[k, COUNT(*) AS c])", False),
        ("[70]:OverAggregate(partitionBy=[k], orderBy=[pt ASC], window=[ ROWS BETWEEN 3 PRECEDING AND NOW])", True),
        ("[64]:OverAggregate(partitionBy=[k], orderBy=[ts ASC], window=[ RANGE BETWEEN 9 PRECEDING AND NOW])", False),
        ("[64]:OverAggregate(orderBy=[pt ASC], window=[ ROWS BETWEEN 3 PRECEDING AND CURRENT ROW], select=[k])", True),
        ("[76]:Match(partitionBy=[k], orderBy=[ts ASC], measures=[FINAL(B.f0) AS c], rowsPerMatch=[ONE ROW])", False),
        ("[10]:Deduplicate(keep=[FirstRow], key=[k], order=[PROCTIME], outputInsertOnly=[true])", True),
        ("[7]:Deduplicate(keep=[LastRow], key=[k], order=[ROWTIME], outputInsertOnly=[false])", False),
        ("[39]:IntervalJoin(joinType=[InnerJoin], windowBounds=[isRowTime=false, leftLowerBound=-9], where=[])", True),
        ("[30]:IntervalJoin(joinType=[InnerJoin], windowBounds=[isRowTime=true, leftLowerBound=-9], where=[])", False),
    ],
)
def test_windows_by_the_clock_do_not_wait_for_event_time(window: str, untimed: bool) -> None:
    source = "[2]:Calc(select=[MOD(f0, 4) AS k, PROCTIME() AS pt, PROCTIME() AS ts])"
    clocks = clock_columns(f"{source}[3]:WatermarkAssigner(rowtime=[ts], watermark=[(ts - 5000)])")
    assert (is_untimed(window, clocks), clocks) == (untimed, {"pt"})


@pytest.mark.parametrize(
    ("bounds", "ms"),
    [
        ("isRowTime=true, leftLowerBound=-10000, leftUpperBound=0, leftTimeIndex=1", 10_000),
        ("isRowTime=true, leftLowerBound=-86400000, leftUpperBound=90000000, leftTimeIndex=1", 90_000_000),
        ("isRowTime=true, leftLowerBound=5000, leftUpperBound=7000, leftTimeIndex=1", 7_000),
        ("isRowTime=false, leftLowerBound=-10000, leftUpperBound=0, leftTimeIndex=1", 0),
    ],
)
def test_how_much_later_an_interval_join_sends_its_watermark(bounds: str, ms: int) -> None:
    assert join_delay_ms(f"[13]:IntervalJoin(joinType=[InnerJoin], windowBounds=[{bounds}], where=[(k = k0)])") == ms


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("10000", 10_000),
        ("10 s", 10_000),
        ("500ms", 500),
        ("PT10S", 10_000),
        ("1 min", 60_000),
        ("?", None),
        ("9" * 400, None),
        ("9" * 15 + "d", 2**63 - 1),
    ],
)
def test_durations(text: str, ms: int | None) -> None:
    assert duration_ms(text) == ms


def test_a_report_of_a_named_target_uses_its_certificates(tmp_path: Path) -> None:
    """The configuration has options that `report` itself does not."""
    no_pem = tmp_path / "ca.pem"
    no_pem.write_text("not a certificate")
    file = tmp_path / "wmtop" / "config.toml"
    file.parent.mkdir()
    file.write_text(f'[targets.prod]\nattach = "https://127.0.0.1:1/orders"\nca-file = "{no_pem}"\n')
    done = subprocess.run(
        [sys.executable, "-m", "wmtop.tui.cli", "report", "prod", "-o", str(tmp_path / "r.zip")],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 2
    assert str(no_pem) in done.stderr
