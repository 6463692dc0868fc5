"""The session has the settings that the engine counts on, and what keeps it from starting is one line."""

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from wmtop.engine.run import session
from wmtop.engine.run.session import build_session, jvm_process
from wmtop.engine.system import java
from wmtop.engine.system.errors import RunError, UsageError

from ..refusals import refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


def test_a_directory_with_too_long_a_path_for_sockets_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("x" * 60)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    monkeypatch.setattr(session, "_sockets", None)  # keeps the one of the running session
    assert session._local_sockets() == {}  # pyright: ignore[reportPrivateUsage]
    assert not list(deep.iterdir())


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


def test_what_spark_says_against_its_start_is_one_line(tmp_path: Path) -> None:
    start = "from wmtop.engine.run.session import build_session; from pathlib import Path; import sys"
    run = f"{start}; build_session(master='nonsense', log=Path(sys.argv[1]), archive=False)"
    done = subprocess.run(
        [sys.executable, "-c", run, str(tmp_path / "log")], capture_output=True, text=True, timeout=120, check=False
    )
    last = done.stderr.strip().splitlines()[-1]
    assert RunError.__name__ in last
    assert "Master must" in last
    assert str(tmp_path / "log") in last


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
