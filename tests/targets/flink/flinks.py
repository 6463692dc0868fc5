"""A real Flink with a job whose input is files that the tests write (`FilesJob.java`)."""

import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from wmtop.engine.system.java import fetched_jars, find_java
from wmtop.engine.system.rest import RestSecurity
from wmtop.engine.targets.flink.demo import compile_job, flink_jars
from wmtop.engine.targets.flink.facts import FlinkFacts
from wmtop.engine.targets.flink.watch import FlinkWatch
from wmtop.engine.verdict.target_history import TargetHistory
from wmtop.engine.watermarks.times import MIN

FLINK_VERSION = os.environ.get("WMTOP_TEST_FLINK", "2.3.0")
BASE_MS = 1_700_000_040_000
"""An event time at the start of a minute."""
START_S = 120
_HERE = Path(__file__).parent
_SQL_JARS = ("table-api-java-bridge", "table-planner-loader", "table-runtime", "cep")
_OPENED = ("lang", "util", "lang.invoke", "time", "util.concurrent", "net")
_JAVA_OPTIONS = (
    "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
)  # fmt: skip


def compiled(directory: Path, *, sql: bool = False) -> str:
    """The class path of `FilesJob`, with `sql` of `SqlJob`, which are compiled into `directory`."""
    java, jars = str(find_java().home / "bin" / "java"), [flink_jars(FLINK_VERSION)]
    if sql:
        names = [f"org.apache.flink:flink-{name}:{FLINK_VERSION}" for name in _SQL_JARS]
        jars.append(fetched_jars(f"flink-sql-cep-{FLINK_VERSION}", names, "", what="the test", instead="skip it"))
    sources = ["FilesJob.java", *(["SqlJob.java"] if sql else [])]
    compile_job(java, jars, [_HERE / source for source in sources], directory)
    return ":".join([str(directory), *(f"{path}/*" for path in jars)])


class Flink:
    """One JVM with one job; `options` are those of `FilesJob.main`."""

    def __init__(
        self, class_path: str, directory: Path, port: int, *, main: str = "FilesJob", heap: str = "500m",
        **options: object,
    ) -> None:  # fmt: skip
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.url = f"http://127.0.0.1:{port}"
        arguments = {"port": port, "dir": directory, **{key.replace("_", "-"): value for key, value in options.items()}}
        java = find_java().home / "bin" / "java"
        command = [
            java,
            *_JAVA_OPTIONS,
            f"-Xmx{heap}",
            "-cp",
            class_path,
            main,
            *(f"{k}={v}" for k, v in arguments.items()),
        ]
        self._log = (directory / "flink.log").open("wb")
        self.process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)

    def get(self, path: str) -> Any:
        """The JSON that Flink's REST API answers: the truth to compare with."""
        with urllib.request.urlopen(self.url + path, timeout=10) as answer:
            return json.load(answer)

    def job(self, name: str | None = None) -> str:
        """The id of the newest job, or of the newest with that name."""
        jobs = [job for job in self.get("/jobs/overview")["jobs"] if name in (None, job["name"])]
        return max(jobs, key=lambda job: job["start-time"])["jid"]

    def cancel(self, name: str) -> None:
        """Cancel a job, as Flink's UI does."""
        request = urllib.request.Request(f"{self.url}/jobs/{self.job(name)}?mode=cancel", method="PATCH")
        urllib.request.urlopen(request, timeout=10).close()

    def rescale(self, most: int) -> None:
        """Ask for that parallelism at most, as Flink's UI does; the job must run under the adaptive scheduler."""
        job = self.job()
        wanted = {
            vertex["id"]: {"parallelism": {"lowerBound": 1, "upperBound": most}}
            for vertex in self.get(f"/jobs/{job}")["vertices"]
        }
        request = urllib.request.Request(
            f"{self.url}/jobs/{job}/resource-requirements", json.dumps(wanted).encode(),
            {"Content-Type": "application/json"}, method="PUT",
        )  # fmt: skip
        urllib.request.urlopen(request, timeout=10).close()

    def wait_for(self, state: str = "RUNNING", name: str | None = None) -> None:
        """Until the newest job, or the newest with that name, is in that state."""
        until(lambda: self._state(name) == state, f"{name or 'the job'} is {state}")

    def _state(self, name: str | None) -> str | None:
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            jobs = [job for job in self.get("/jobs/overview")["jobs"] if name in (None, job["name"])]
            if jobs:
                return max(jobs, key=lambda job: job["start-time"])["state"]
        assert self.process.poll() is None, (self.directory / "flink.log").read_text()
        return None

    def level(self, name: str | None = None) -> int:
        """The minimum of the window's input watermarks, asked of REST by itself."""
        graph = self.get(f"/jobs/{self.job(name)}")
        [window] = [one for one in graph["vertices"] if one["name"].startswith("Window")]
        values = self.get(f"/jobs/{graph['jid']}/vertices/{window['id']}/watermarks")
        return min((int(one["value"]) for one in values), default=MIN)  # no dump has been fetched yet

    def write(self, split: str, *seconds: float) -> None:
        """Append records at BASE_MS plus so many seconds."""
        self.append(split, *(str(BASE_MS + int(second * 1000)) for second in seconds))

    def append(self, split: str, *lines: str) -> None:
        """Append lines to a split's file."""
        with (self.directory / split).open("a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


class Watching:
    """A watch on a job, polled by the tests."""

    def __init__(
        self, url: str, wanted: str | None = None, operator: str | None = None, horizon_ms: int = 5_000
    ) -> None:
        self.judge = TargetHistory(horizon_ms)
        self.watch = FlinkWatch(url, wanted, operator, RestSecurity())
        self.watch.open()
        self.facts: FlinkFacts | None = None

    def see(self, true: Callable[[Any], bool], what: str):
        """Poll until a snapshot is so; it is returned."""
        found: list[Any] = []

        def is_so() -> bool:
            found[:] = [self.look()]
            return true(found[0])

        until(is_so, what, lambda: found)
        return found[0]

    def look(self) -> Any:
        """The next snapshot."""
        self.facts = self.watch.poll()
        return self.judge.judge(self.watch.picture("test", self.facts, time.time_ns() // 1_000_000))


def until(true: Callable[[], bool], what: str, seen: Callable[[], object] = lambda: None) -> None:
    """Wait until something is so."""
    deadline = time.monotonic() + START_S
    while not true():
        assert time.monotonic() < deadline, f"not within {START_S} s: {what}; {seen()}"
        time.sleep(0.3)
