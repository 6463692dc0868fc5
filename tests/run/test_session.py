"""The session has the settings that the engine counts on, and what keeps it from starting is one line."""

import ast
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from py4j.java_gateway import JavaObject  # pyright: ignore[reportMissingTypeStubs]
from wmtop.engine.run import session
from wmtop.engine.run.jvm import MAX_STRANGERS
from wmtop.engine.run.query import STOPPING
from wmtop.engine.run.session import build_session, jvm_process
from wmtop.engine.run.warm_up import exercise
from wmtop.engine.system import java
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.system.files import PrivateDirectory

from ..conftest import QUICK
from ..refusals import refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_it_computes_in_utc_and_keeps_quiet(spark: "SparkSession") -> None:
    assert spark.sql("select date_format(timestamp_millis(0), 'HH:mm') as at").collect()[0]["at"] == "00:00"
    assert spark.sql("select cast('x' as int) as number").collect()[0]["number"] is None
    assert spark.sparkContext.uiWebUrl is None
    assert spark.conf.get("spark.sql.shuffle.partitions") == "1"


def test_workers_run_this_python_and_import_nothing_from_the_current_directory(spark: "SparkSession") -> None:
    def look(batches: object) -> object:
        import sys

        import pyarrow as pa
        import pyspark

        seen = {"python": [sys.executable], "safe": [sys.flags.safe_path], "pyspark": [pyspark.__file__]}
        yield pa.RecordBatch.from_pydict(seen)

    row = spark.range(1).mapInArrow(look, "python string, safe boolean, pyspark string").collect()[0]
    # The PySpark that is installed, already compiled: not the zip of sources that Spark puts before it.
    assert (row["python"], row["safe"], row["pyspark"]) == (sys.executable, True, pyspark.__file__)


def test_a_worker_keeps_what_else_is_on_its_path() -> None:
    worker = Path(session.__file__).with_name("worker-python")
    places = ["/a b", "/spark/python/lib/pyspark.zip", "/spark/python/lib/py4j-0.10.9.9-src.zip", "/c*"]
    environment = {"PYTHONPATH": ":".join(places), "WMTOP_PYTHON": sys.executable}
    ask = [str(worker), "-c", "import os; print(os.environ['PYTHONPATH'])"]
    done = subprocess.run(ask, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "/a b:/c*\n"


def test_a_task_whose_worker_is_killed_is_done_again(spark: "SparkSession", tmp_path: Path) -> None:
    killed = tmp_path / "killed"

    def look(batches: object) -> object:
        if not killed.exists():
            killed.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from batches  # type: ignore[misc]

    assert spark.range(3).coalesce(1).mapInArrow(look, "id long").count() == 3
    assert killed.exists()


def test_workers_talk_through_sockets_of_a_private_directory(spark: "SparkSession") -> None:
    places = spark.sparkContext.getConf().get("spark.python.unix.domain.socket.dir")
    assert places is not None
    assert spark.range(1).mapInArrow(lambda batches: batches, "id long").count() == 1
    assert Path(places).stat().st_mode & 0o777 == 0o700
    assert list(Path(places).glob(".*.sock"))


def test_the_jvm_forgets_the_sockets_of_past_answers(spark: "SparkSession") -> None:
    def known() -> list[str]:
        java = spark.sparkContext._jvm.java  # pyright: ignore
        field = java.lang.Class.forName("java.io.DeleteOnExitHook").getDeclaredField("files")
        field.setAccessible(True)
        return [path for path in field.get(None) if str(path).endswith(".sock")]

    for _ in range(5):
        spark.range(3).toArrow()
    assert len(known()) >= 5
    session.forget_sockets(spark)
    assert not known()
    assert spark.range(3).toArrow().num_rows == 3


def test_a_directory_with_too_long_a_path_has_no_sockets(tmp_path: Path) -> None:
    deep = tmp_path / ("x" * 90)
    deep.mkdir()
    assert session._local_sockets(deep) == {}  # pyright: ignore[reportPrivateUsage]
    assert not list(deep.iterdir())


def test_files_of_a_session_are_in_its_private_directory(spark: "SparkSession") -> None:
    directory = Path(str(spark.sparkContext.getConf().get("spark.python.unix.domain.socket.dir")))
    java = spark.sparkContext._jvm.java  # pyright: ignore
    assert java.lang.System.getProperty("java.io.tmpdir") == str(directory)
    assert any(directory.glob("blockmgr-*"))


LEAVE = "import sys; from wmtop.engine.system.files import PrivateDirectory as P; d = P(sys.argv[1]); print(d.path)"


def test_what_a_killed_process_left_is_removed_and_what_a_live_one_holds_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    live = PrivateDirectory("wmtop-test-")
    stranger = tmp_path / "wmtop-test-link"
    stranger.symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").mkdir()
    run = [sys.executable, "-c", LEAVE + "; open(d.path / 'x', 'w'); import os; os.kill(os.getpid(), 9)", "wmtop-test-"]
    killed = subprocess.run(
        run, env=os.environ | {"TMPDIR": str(tmp_path)}, stdout=subprocess.PIPE, text=True, check=False
    )
    assert killed.returncode == -9
    left = [path for path in tmp_path.glob("wmtop-test-*") if path not in (live.path, stranger)]
    assert len(left) == 1
    assert left[0].stat().st_mode & 0o777 == 0o700
    mine = PrivateDirectory("wmtop-test-")
    assert not left[0].exists()
    assert live.path.exists()
    assert (tmp_path / "elsewhere").exists()
    for directory in (live, mine):
        directory.remove()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["elsewhere", "wmtop-test-link"]


def test_what_a_killed_process_left_goes_whatever_it_was_for_and_a_users_own_stays(tmp_path: Path) -> None:
    killed = LEAVE + "; import os; os.kill(os.getpid(), 9)"
    done = subprocess.run(
        [sys.executable, "-c", killed, "wmtop-staged-"], env=os.environ | {"TMPDIR": str(tmp_path)}, check=False
    )
    assert done.returncode == -9
    [left] = tmp_path.iterdir()
    own = tmp_path / "wmtop-state-payments"  # given with --state-dir
    (own / "checkpoint").mkdir(parents=True)
    mine = PrivateDirectory("wmtop-spark-", tmp_path)
    assert not left.exists()
    assert (own / "checkpoint").exists()
    mine.remove()
    mine.remove()  # changes nothing
    assert list(tmp_path.iterdir()) == [own]


TEMPORARY = {"mkdtemp", "mkstemp", "mktemp", "TemporaryDirectory", "NamedTemporaryFile", "gettempdir"}


def test_all_that_is_temporary_is_in_a_private_directory_which_the_next_start_removes() -> None:
    """Only `PrivateDirectory` makes temporary files with a name; but for jars, whose next fetch removes what is left of
    one in wmtop's cache.
    """
    root = Path(__file__).parents[2]
    makers = set[str]()
    for file in [*(root / "engine").rglob("*.py"), *(root / "tui").rglob("*.py")]:
        names = {node.attr for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Attribute)}
        names |= {
            alias.name
            for node in ast.walk(ast.parse(file.read_text()))
            if isinstance(node, ast.ImportFrom) and node.module == "tempfile"
            for alias in node.names
        }
        makers |= {str(file.relative_to(root))} if names & TEMPORARY else set()
    assert makers == {"engine/system/files.py", "engine/system/java.py"}


def _refused(port: int, request: bytes) -> bool:
    """Whether the server closes the connection, and answers at most that there is an error."""
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as attacker:
        try:
            attacker.sendall(request)
            attacker.shutdown(socket.SHUT_WR)  # else the server waits for the rest of a token
            while more := attacker.recv(4_096):
                answer += more
        except OSError:  # it has closed the connection already
            pass
    return answer in (b"", b"!xn\n")


def test_only_the_jvm_calls_functions_of_this_process_and_a_query_survives_who_tries(
    spark: "SparkSession", tmp_path: Path
) -> None:
    batches: list[int] = []
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    writer = rows.writeStream.foreachBatch(lambda _, number: batches.append(number))
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="0 seconds").start()

    def wait_for_a_batch() -> None:
        seen = len(batches)
        deadline = time.monotonic() + 60
        while len(batches) < seen + 2:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
            time.sleep(0.05)

    try:
        wait_for_a_batch()
        gateway = spark.sparkContext._gateway  # pyright: ignore
        port = gateway._callback_server.server_socket.getsockname()[1]
        proxies = [name for name in gateway.gateway_property.pool.dict if name.startswith("p")]
        assert proxies
        for name in proxies:
            assert _refused(port, f"g\n{name}\ne\n".encode())
            assert _refused(port, f"c\n{name}\ncall\ni5\ne\n".encode())
            assert _refused(port, f"A\n{'0' * 64}\ne\ng\n{name}\ne\n".encode())
            assert _refused(port, b"A\n\ne\n")
        assert set(proxies) <= gateway.gateway_property.pool.dict.keys()
        wait_for_a_batch()
    finally:
        query.stop()


def test_stopping_a_query_interrupts_what_its_batch_function_waits_for_in_the_jvm(
    spark: "SparkSession", tmp_path: Path
) -> None:
    waiting, outcome = threading.Event(), list[BaseException]()

    def wait(frame: "DataFrame", number: int) -> None:
        waiting.set()
        try:
            spark._jvm.java.lang.Thread.sleep(60_000)  # pyright: ignore
        except BaseException as error:
            outcome.append(error)
            raise

    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    query = rows.writeStream.foreachBatch(wait).option("checkpointLocation", str(tmp_path)).start()
    assert waiting.wait(60)
    query.stop()
    [error] = outcome
    assert "InterruptedException" in str(error)


def test_a_run_that_stops_while_it_waits_for_rows_ends_no_thread_of_the_jvm_by_an_error(
    spark: "SparkSession", tmp_path: Path
) -> None:
    log = Path(f"/proc/{jvm_process(spark).pid}/fd/2").resolve()
    before = log.stat().st_size
    for attempt in range(5):  # the stop may also come between two batches
        (tmp_path / str(attempt)).mkdir()
        exercise(spark, tmp_path / str(attempt))
        said = log.read_bytes()[before:].decode()
        assert "Exception in thread" not in said
        if STOPPING in said:
            return
    pytest.fail("no stop came while a batch waited")


def test_strangers_that_keep_connections_keep_the_jvm_from_nothing(spark: "SparkSession", tmp_path: Path) -> None:
    batches: list[int] = []
    frame = spark.readStream.format("rate").option("rowsPerSecond", 5).load()
    writer = frame.writeStream.foreachBatch(lambda _, number: batches.append(number))
    query = writer.option("checkpointLocation", str(tmp_path)).trigger(processingTime="0 seconds").start()
    try:
        port = spark.sparkContext._gateway._callback_server.get_listening_port()  # pyright: ignore
        held = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(MAX_STRANGERS + 40)]
        seen, deadline = len(batches), time.monotonic() + 60
        for stranger in held:
            with stranger, suppress(ConnectionResetError):
                assert stranger.recv(4_096) in (b"", b"!xn\n")
        while len(batches) < seen + 3:
            assert query.isActive, query.exception()
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        query.stop()


def test_strangers_do_not_fill_the_queue_in_which_the_jvm_waits_to_be_taken(spark: "SparkSession") -> None:
    server = spark.sparkContext._gateway._callback_server  # pyright: ignore
    assert _refused(server.get_listening_port(), b"x" * 100)  # the first that is taken makes the queue longer
    with server.lock, ExitStack() as strangers:  # meanwhile none is taken
        for _ in range(200):
            stranger = socket.create_connection(("127.0.0.1", server.get_listening_port()), timeout=0.9)
            strangers.enter_context(stranger)  # where the queue is full the kernel tries again after 1 s


def test_who_has_shown_the_token_is_not_ended_for_newer_strangers(spark: "SparkSession") -> None:
    gateway = spark.sparkContext._gateway  # pyright: ignore
    server = gateway._callback_server
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    java = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    token = field.get(java.getCallbackClient())
    address = ("127.0.0.1", server.get_listening_port())
    with ExitStack() as opened:
        with server.lock:  # all of them are taken at once
            known = opened.enter_context(socket.create_connection(address, timeout=20))
            known.sendall(f"A\n{token}\ne\n".encode())
            for _ in range(MAX_STRANGERS + 40):
                opened.enter_context(socket.create_connection(address, timeout=20))
        assert known.recv(4) == b"!yv\n"


def test_sparks_own_ports_listen_on_loopback_and_take_only_who_knows_the_secret(spark: "SparkSession") -> None:
    conf = spark.sparkContext.getConf()
    assert conf.get("spark.authenticate") == "true"
    assert conf.get("spark.authenticate.secret") is None
    owned = {os.readlink(path) for path in Path(f"/proc/{jvm_process(spark).pid}/fd").iterdir() if path.is_symlink()}
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    listening = [line[1].partition(":")[0] for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in owned]
    assert listening
    assert set(listening) <= {"0100007F", "0000000000000000FFFF00000100007F"}


def test_the_jvm_is_known_by_its_process_id(spark: "SparkSession") -> None:
    process = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(jvm_process(spark).pid)], capture_output=True, text=True, check=True
    )
    assert "SparkSubmit" in process.stdout


def test_a_second_session_is_refused_and_leaves_the_first_alone(spark: "SparkSession") -> None:
    with refused(RunError, "second_session"):
        build_session()
    assert spark.range(3).count() == 3


@pytest.mark.parametrize(
    ("option", "said"),
    [({"packages": ["kafka-clients"]}, "--packages"), ({"jars": ["/nowhere/a.jar"]}, "--jars")],
    ids=["packages", "jars"],
)
def test_artifacts_are_checked_before_anything_starts(option: dict[str, list[str]], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        build_session(**option)


def why_not_started(log: Path, arguments: str) -> str:
    """The last line of a process whose session does not start."""
    start = "from wmtop.engine.run.session import build_session; from pathlib import Path; import sys"
    run = f"{start}; build_session(log=Path(sys.argv[1]), archive=False, {arguments})"
    done = subprocess.run(
        [sys.executable, "-c", run, str(log)], capture_output=True, text=True, timeout=120, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert RunError.__name__ in last
    assert str(log) in last
    return last


def test_what_spark_says_against_its_start_is_one_line(tmp_path: Path) -> None:
    assert "Master must" in why_not_started(tmp_path / "log", "master='nonsense'")


def test_a_package_that_is_not_what_its_checksum_says_is_refused(tmp_path: Path) -> None:
    """Of a repository that gives another jar than the one of which it has the checksum."""
    made = tmp_path / "repository" / "org" / "example" / "tiny" / "1.0" / "tiny-1.0.pom"
    made.parent.mkdir(parents=True)
    pom = "<groupId>org.example</groupId><artifactId>tiny</artifactId><version>1.0</version>"
    made.write_text(f"<project><modelVersion>4.0.0</modelVersion>{pom}</project>")
    made.with_suffix(".jar").write_bytes(b"another")
    made.with_suffix(".jar.sha1").write_text(hashlib.sha1(b"the true one", usedforsecurity=False).hexdigest())
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="only"/><resolvers><ibiblio name="only" m2compatible="true" '
        f'root="{(tmp_path / "repository").as_uri()}"/></resolvers></ivysettings>'
    )
    conf = {**QUICK, "spark.jars.ivySettings": str(settings), "spark.jars.ivy": str(tmp_path / "ivy")}
    last = why_not_started(tmp_path / "log", f"packages=['org.example:tiny:1.0'], conf={conf}")
    assert "download failed: org.example#tiny" in last
    assert not list((tmp_path / "ivy").rglob("*.jar"))


UNKNOWN_LOCALHOST = """
import socket, socketserver
from wmtop.engine.run.session import build_session

def unknown(*_):
    raise socket.gaierror(-2, "Name or service not known")

socketserver.TCPServer.__init__ = unknown
build_session(archive=False)
"""


@pytest.mark.matrix
def test_a_machine_that_does_not_know_localhost_gets_the_fix() -> None:
    run = [sys.executable, "-c", UNKNOWN_LOCALHOST]
    done = subprocess.run(run, capture_output=True, text=True, timeout=120, check=False)
    assert {"/etc/hosts", "localhost'"} <= set(done.stderr.split())


def fake_java(home: Path, version: str) -> Path:
    """A `java` that only tells its version."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-01' >&2\n")
    program.chmod(0o755)
    return home


def test_the_first_java_that_is_new_enough_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = fake_java(tmp_path / "jvm" / "8", "1.8.0_392"), fake_java(tmp_path / "jvm" / "21", "21.0.2")
    newer = fake_java(tmp_path / "newer", "25")
    monkeypatch.setattr(java, "_USUAL_PLACES", (f"{tmp_path}/jvm/*",))
    monkeypatch.setenv("PATH", f"{newer / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert (java.find_java().home, java.find_java().major) == (newer, 25)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert (java.find_java().home, java.find_java().major) == (new, 21)
    monkeypatch.setenv("JAVA_HOME", str(new))
    assert java.find_java().home == new


def test_without_a_java_it_says_how_to_get_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "_USUAL_PLACES", ())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with refused(UsageError, "no_java", "adoptium.net"):
        java.find_java()
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    (tmp_path / "apt-get").touch(mode=0o755)
    with refused(UsageError, "no_java", tmp_path / "old", "openjdk-17"):
        java.find_java()
