"""Every parser of bytes that come from outside, each as a function of bytes, with the errors that it may raise.

`corpus/NAME` has inputs of each: files of Spark, answers of Flink, commits and assignments of Kafka.
"""

import contextlib
import io
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import msgspec
import pyarrow as pa
from wmtop.engine.feed.messages import decode_as, decode_from_engine, decode_to_engine
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.feed.run_directory import RunInfo
from wmtop.engine.kafka.client_settings import kafka_config, parse_login
from wmtop.engine.kafka.cluster import Record, TopicPartition, parse_offsets, time_in, why_none_in
from wmtop.engine.run.sources.base import RecordColumns
from wmtop.engine.run.sources.columns import PREFIX, Columns
from wmtop.engine.run.sources.files import FileRows, Piece
from wmtop.engine.run.sources.table_files import look_at
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.system.json_values import JsonPath, parse_json_path, time_of
from wmtop.engine.system.rest import Rest, RestError, RestSecurity
from wmtop.engine.system.zstd import frame_header
from wmtop.engine.targets.flink import rest as flink
from wmtop.engine.targets.flink.rest import FLINK, Collector, FlinkRest, RestMetric
from wmtop.engine.targets.flink.samples import Graph, rate_names, sample_of
from wmtop.engine.targets.spark import driver, driver_answers, files, history_server, plan
from wmtop.engine.targets.spark.event_log import EventLogTap
from wmtop.engine.targets.spark.facts import decode_event, decode_progress
from wmtop.engine.targets.spark.files import UnreadableError
from wmtop.engine.targets.spark.history_server import SPARK_HTTP
from wmtop.engine.targets.spark.state_files import changes, decompress
from wmtop.engine.targets.spark.tapped import decode_sketch
from wmtop.engine.targets.streams.clocks import assigned_tasks, decode_metadata, decode_tasks
from wmtop.engine.text.formatting import malformed
from wmtop.tui.cli.config import ConfigError, parse_config
from wmtop.tui.words.check import parse_fail_if

from ..run.sources.poison import GOOD

CORPUS = Path(__file__).parent / "corpus"
STATE_LIMIT = 1 << 24
JOB = "0" * 32
SCRATCH = Path(tempfile.gettempdir(), f"wmtop-fuzzed-{os.getpid()}")
"""The file, or directory, of a parser that reads one."""


class Parser(NamedTuple):
    """What takes the bytes, what it may raise, and pieces that its inputs are made of.

    `is_shown`: the error's text is printed as it is; else its caller makes a line of it.
    """

    parse: Callable[[bytes], object]
    raises: tuple[type[Exception], ...] = ()
    words: tuple[bytes, ...] = ()
    is_shown: bool = True


class _Answers(FlinkRest):
    """A JobManager whose every answer is the same bytes."""

    body = b""

    def read(self, path: str, content_type: str) -> bytes:
        return self.body


class _SparkAnswers(Rest):
    """A Spark UI whose every answer is the same bytes."""

    body = b""

    def read(self, path: str, content_type: str) -> bytes:
        return self.body


_flink = _Answers("http://127.0.0.1:1", RestSecurity())
_spark = _SparkAnswers("http://127.0.0.1:1", RestSecurity(), SPARK_HTTP)


def _from_flink(ask: Callable[[FlinkRest], object]) -> Parser:
    def parse(data: bytes) -> object:
        _flink.body = data
        return ask(_flink)

    return Parser(parse, (RestError,), JSON_WORDS)


def _from_spark(kind: object) -> Parser:
    def parse(data: bytes) -> object:
        _spark.body = data
        return _spark.get("/", kind)  # type: ignore[type-var]

    return Parser(parse, (RestError,), JSON_WORDS)


def _sample(rest: FlinkRest) -> object:
    """The first vertex of a real graph; its metrics are what the answer says."""
    _flink.body, answer = (CORPUS / "flink job" / "orders").read_bytes(), _flink.body
    graph = flink.graph_of(rest, JOB)
    _flink.body = answer
    found = Collector(rest, lambda seconds: None)
    listing = [metric.id for metric in rest.get("/", list[RestMetric])]
    vertex = graph.vertices[0]
    sample = sample_of(vertex, listing, rest.metrics("/", listing))
    return sample, rest.sums("/", listing), rate_names(vertex, listing), found.sample(Graph(graph.job, 1), 1)


def _in_file(read: Callable[[Path], object], name: str) -> Callable[[bytes], object]:
    def parse(data: bytes) -> object:
        SCRATCH.mkdir(exist_ok=True)
        path = SCRATCH / name
        path.write_bytes(data)
        return read(path)

    return parse


def _recording(path: Path) -> object:
    with RecordingReader(path) as reader:
        for number, snapshot in enumerate(reader):
            if number == 0:
                reader.seek(snapshot.now_ms or 0)
        return reader.span_ms, len(reader), reader.sample(0, len(reader))


def _event_log(path: Path) -> object:
    with contextlib.closing(EventLogTap(path)) as tap:
        return tap.poll_all()


def _zip(data: bytes) -> object:
    into = SCRATCH / "log"
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    return history_server._unpack(io.BytesIO(data), into, 1)  # pyright: ignore[reportPrivateUsage]


def _kafka_config(path: Path) -> object:
    environment = dict(os.environ)
    try:
        config = kafka_config("there:9092", path)
        return config.for_connector(), repr(config)
    finally:
        os.environ.clear()
        os.environ.update(environment)


def _record(data: bytes) -> object:
    record = Record(TopicPartition("t", 0), 0, 0, None, data)
    paths = (JsonPath(("ts",)), JsonPath(("a", "b")))
    return [(time_in(record, path), time_in(record, path, "s"), why_none_in(record, path)) for path in paths]


def _rows_like(kind: str) -> Callable[[bytes], object]:
    """A file behind one that defines its columns, read both ways: they must count the same rows."""
    columns = Columns(time="at", channel="who")
    marked = Columns(time="at", channel="who", marker="note = 'x'")

    def parse(data: bytes) -> object:
        SCRATCH.mkdir(exist_ok=True)
        first, path = SCRATCH / f"first.{kind}", SCRATCH / f"rows.{kind}"
        first.write_bytes(GOOD[kind])
        path.write_bytes(data)
        with contextlib.suppress(UsageError):  # as a first file it may be refused
            look_at(path)
        in_columns = FileRows(look_at(first), columns, RecordColumns(explain=("note",)))
        in_rows = FileRows(look_at(first), marked, RecordColumns(whole=True, explain=("note",)))
        paths = pa.RecordBatch.from_pydict({"path": [str(path)]})
        one = [ms for table in in_columns(Piece(str(path), len(data))) for ms in table["ts"].to_pylist()]
        other = [ms for batch in in_rows.in_rows(iter([paths])) for ms in batch.column(f"{PREFIX}ts").to_pylist()]
        shown = next(in_columns.malformed(str(path)), None)
        assert one == other, "the two ways read other rows"
        assert (shown is None) == (None not in one), "a malformed row is not shown"
        return len(one), None if shown is None else malformed(shown)

    return parse


def _text(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    return lambda data: parse(data.decode(errors="surrogateescape"))


def _utf8(parse: Callable[[str], object]) -> Callable[[bytes], object]:
    """For what reaches a parser only as valid UTF-8: answers and files are decoded before."""
    return lambda data: parse(data.decode(errors="replace"))


def _plan(lines: Callable[[str], Iterator[plan.Line]]) -> Callable[[bytes], object]:
    return _utf8(lambda text: (plan.read_plan(lines(text)), plan.in_force_of(lines(text))))


NUMBERS = (b"-1", b"0", b"9223372036854775807", b"-9223372036854775808", b"1e400", b"9" * 400, b"NaN", b"2000000000")
JSON_WORDS = (*NUMBERS, b"null", b"true", b'""', b"[]", b"{}", b"[" * 5_000, b'{"a":' * 3_000, b'"\\ud800"', b'"\xff"')
BYTES = (b"\0\0\0\0", b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 8, b"\0\0\0\1")
CSV_WORDS = (b'"', b'""', b',"', b'",', b"\n", b"\r", b"\xff", b"\0", b",", b'"' + b"\n" * 1_100 + b'"', b"x" * 150_000)
HTML_WORDS = (b"<tr>", b"<td>", b"</td>", b"</tr>", b"&#x110000;", b"&#0;", b"<", b"&lt;", *NUMBERS)
PLAN_WORDS = (
    b"(",
    b")",
    b"EventTimeWatermark ",
    b"#12",
    b"interval ",
    *NUMBERS,
    b"\n",
    b"+- ",
    b" AND ",
    b"isnotnull(",
)
ZIP_ERRORS = (BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, RuntimeError)
"""What the reader of a log turns into one line."""
BAD_JSON = (msgspec.DecodeError,)

PARSERS = {
    "rows of CSV": Parser(_rows_like("csv"), (), CSV_WORDS),
    "rows of JSON": Parser(_rows_like("jsonl"), (), (b"\n", b"\xff", *JSON_WORDS)),
    "rows of Parquet": Parser(_rows_like("parquet"), (), BYTES),
    "spark offsets": Parser(files.decode_offsets, (UnreadableError,), JSON_WORDS),
    "spark commit": Parser(files.decode_commit, (UnreadableError,), JSON_WORDS),
    "spark query id": Parser(files.decode_query_id, (UnreadableError,), JSON_WORDS),
    "spark operator": Parser(files.decode_operator, (UnreadableError,), JSON_WORDS),
    "spark schema": Parser(files.decode_schema, (UnreadableError,), (*BYTES, *JSON_WORDS)),
    "spark state": Parser(lambda data: decompress(data, STATE_LIMIT), (UnreadableError,), BYTES),
    "spark rows": Parser(lambda data: list(changes(data, False)), (UnreadableError,), BYTES),
    "spark sketch": Parser(decode_sketch, (UnreadableError,), BYTES),
    "spark event": Parser(decode_event, (UnreadableError,), JSON_WORDS),
    "spark progress": Parser(_utf8(decode_progress), (UnreadableError,), JSON_WORDS),
    "spark event log": Parser(_in_file(_event_log, "local-1"), (UnreadableError, UsageError, RunError), JSON_WORDS),
    "spark plan in JSON": Parser(
        lambda data: plan.read_plan(plan.lines_of_json(data)), (UnreadableError,), (*PLAN_WORDS, *JSON_WORDS)
    ),
    "spark plan as a tree": Parser(_plan(plan.lines_of_tree), (), PLAN_WORDS),
    "spark plan formatted": Parser(_plan(plan.lines_of_formatted), (), PLAN_WORDS),
    "spark page of statistics": Parser(_utf8(driver_answers.watermarks_in), (), HTML_WORDS),
    "spark page of queries": Parser(_utf8(driver_answers.statuses_in), (), HTML_WORDS),
    "spark executions": _from_spark(list[driver_answers.Execution]),
    "spark applications": _from_spark(list[history_server.Listed]),
    "spark gauges": _from_spark(driver.Gauges),
    "spark log as a zip": Parser(_zip, ZIP_ERRORS, (b"PK\5\6", b"PK\1\2", b"PK\3\4", *BYTES), is_shown=False),
    "flink overview": _from_flink(flink.jobs_of),
    "flink job": _from_flink(lambda rest: flink.graph_of(rest, JOB)),
    "flink metrics": _from_flink(_sample),
    "flink exceptions": _from_flink(lambda rest: flink.failure_of(rest, JOB)),
    "flink checkpoints": _from_flink(lambda rest: flink.checkpoint_of(rest, JOB)),
    "flink configuration": _from_flink(flink.update_interval_ms),
    "flink error": Parser(FLINK.error_in, (), JSON_WORDS),
    "kafka record": Parser(_record, (), JSON_WORDS),
    "kafka offsets": Parser(_utf8(parse_offsets), (), JSON_WORDS),
    "kafka properties": Parser(
        _in_file(_kafka_config, "client.properties"), (UsageError,), (b"=", b"\\u", b"\\", b"sasl.")
    ),
    "kafka login": Parser(
        _text(parse_login), (ValueError,), (b'"', b"\\", b"=", b";", b"username=", b" required "), is_shown=False
    ),
    "streams metadata": Parser(_utf8(decode_metadata), (), (b"AAAA", b"=", b"////")),
    "streams tasks": Parser(decode_tasks, (), BYTES),
    "streams assignment": Parser(assigned_tasks, (), BYTES),
    "recording": Parser(_in_file(_recording, "a.rec"), (UsageError, RunError), (b"\x28\xb5\x2f\xfd", *BYTES)),
    "zstd header": Parser(frame_header, (), BYTES),
    "stream from an engine": Parser(decode_from_engine, BAD_JSON, JSON_WORDS),
    "stream to an engine": Parser(decode_to_engine, BAD_JSON, JSON_WORDS),
    "entry of the run directory": Parser(lambda data: decode_as(RunInfo, data), BAD_JSON, JSON_WORDS),
    "configuration": Parser(
        _utf8(lambda text: parse_config(text, Path("/etc/config.toml"))), (ConfigError,), (b"[", b"]", b"=", b'"', b".")
    ),
    "fail-if": Parser(
        _utf8(parse_fail_if), (ValueError,), (b" and ", b" or ", b"<", b"'", b"channel[", *NUMBERS), is_shown=False
    ),
    "json path": Parser(_utf8(lambda text: parse_json_path(text, "--time")), (UsageError,), (b"$", b".", b"['", b"']")),
    "time": Parser(_utf8(lambda text: [time_of(text, unit) for unit in ("auto", "s", "ms")]), (), NUMBERS),
}
