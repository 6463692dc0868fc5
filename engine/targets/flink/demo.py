"""The flights as a real Flink job on this machine; its jars are fetched once by Maven."""

import subprocess
from collections.abc import Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from msgspec import Struct

from ...kafka.local_broker import HOST, free_ports
from ...system.child import Child
from ...system.errors import RunError, UsageError, first_line
from ...system.files import PrivateDirectory
from ...system.java import fetched_jars, find_java
from ...system.rest import RestSecurity
from .watch import FlinkWatch

FLINK_VERSION = "2.3.0"
_ARTIFACTS = (
    *(f"org.apache.flink:flink-{name}:{{version}}" for name in ("clients", "runtime-web", "connector-base")),
    "org.slf4j:slf4j-simple:1.7.36",
    "org.eclipse.jdt:ecj:3.32.0",  # compiles the job if there is only a JRE
)
_OPENED = ("lang", "util", "lang.invoke", "time", "util.concurrent", "net")
JAVA_OPTIONS = (
    "-Xmx500m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    *(f"--add-opens=java.base/java.{package}=ALL-UNNAMED" for package in _OPENED),
)  # fmt: skip
_START_S = 120.0
_JOB = Path(__file__).parent / "FlightsJob.java"


class DemoFlights(Struct, frozen=True):
    """Rows of a Parquet file with the names of its columns, from `start_ms` of arrival (epoch ms) on."""

    file: Path
    time: str
    arrival: str
    channel: str
    start_ms: int

    def write(self, directory: Path) -> None:
        """A file for each channel: lines of arrival and event time (epoch ms), by arrival."""
        # pyarrow types its filters only in part
        table: Any = pq.read_table(self.file, columns=[self.time, self.arrival, self.channel])  # pyright: ignore[reportUnknownMemberType]
        columns = [table[name].cast("timestamp[ms]").cast("int64").to_pylist() for name in (self.arrival, self.time)]
        rows = zip(*columns, table[self.channel].to_pylist(), strict=True)
        lines: dict[str, list[tuple[int, int]]] = {}
        for at, event, name in rows:
            if at is not None and event is not None and at >= self.start_ms:
                lines.setdefault(str(name), []).append((at, event))
        directory.mkdir()
        for name, times in lines.items():
            times.sort(key=itemgetter(0))
            (directory / name).write_text("".join(f"{at},{event}\n" for at, event in times))


class FlightsWatch(FlinkWatch):
    """The demo's job, started by `open` and ended by `close`, as a target of `WatchEngine`."""

    step = "starting Flink (the first time its jars are fetched: 105 MB)"

    def __init__(self, flights: DemoFlights, *, speed: float, lateness_ms: int, idle_after_ms: int) -> None:
        """Idleness follows this machine's clock, event time the replay's, which is `speed` times as fast."""
        [self._port] = free_ports(1)
        super().__init__(f"http://{HOST}:{self._port}", None, None, RestSecurity())
        self._flights = flights
        self._numbers = (flights.start_ms, speed, lateness_ms, idle_after_ms)
        self._directory: PrivateDirectory | None = None
        self._child: Child | None = None

    def open(self) -> None:
        """Start Flink and wait for its job; UsageError without Java or Maven, RunError if it does not start."""
        java = str(find_java().home / "bin" / "java")
        jars = flink_jars()
        self._directory = PrivateDirectory("wmtop-flink-")
        directory = self._directory.path
        data, classes = directory / "flights", directory / "classes"
        self._flights.write(data)
        compile_job(java, [jars], [_JOB], classes)
        own = [f"-Djava.io.tmpdir={directory}", "-cp", f"{classes}:{jars}/*", "FlightsJob"]
        command = [java, *JAVA_OPTIONS, *own, *map(str, (self._port, data, *self._numbers))]
        self._child = Child("Flink", command, directory / "flink.log")
        self._child.wait_for(lambda said: self._is_opened(), _START_S)

    def close(self) -> None:
        """End Flink, and remove its files."""
        super().close()
        if self._child is not None:
            self._child.end()
        if self._directory is not None:
            self._directory.remove()

    def _is_opened(self) -> bool:
        """Whether it answers, and has a job."""
        try:
            super().open()
        except UsageError:
            return False
        return True


def flink_jars(version: str = FLINK_VERSION) -> Path:
    """The directory of Flink's jars, fetched (105 MB) if they are missing; errors as in `fetched_jars`."""
    return fetched_jars(
        f"flink-{version}",
        [artifact.format(version=version) for artifact in _ARTIFACTS],
        f"fetching Flink {version} (105 MB, once)",
        what="a local Flink",
        instead="run the demo without --flink",
    )


def compile_job(java: str, jars: Sequence[Path], sources: Sequence[Path], classes: Path) -> None:
    """Compile a job against the jars in these directories, Flink's the first; RunError on failure."""
    compiler = [java, "-cp", f"{jars[0]}/*", "org.eclipse.jdt.internal.compiler.batch.Main", "-17", "-g", "-nowarn"]
    jar_files = ":".join(str(jar) for directory in jars for jar in directory.glob("*.jar"))
    command = [*compiler, "-d", str(classes), "-cp", jar_files, *map(str, sources)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RunError(f"the job cannot be compiled: {first_line(done.stderr or done.stdout)}")
