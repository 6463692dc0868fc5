"""Spark's session, and the class-data archive with which its JVM starts in about half the time."""

import hashlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import platformdirs
from msgspec import Struct

from ..system.errors import RunError, UsageError, first_line
from ..system.files import PrivateDirectory
from ..system.java import Java, find_java
from ..system.ownership import check_only_ours
from .jvm import take_calls
from .tasks import is_local_master

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ARCHIVE_AFTER_S = 60.0
"""How long (s) an engine must run before the archive is made: short runs are left alone."""
_MAX_ARCHIVES = 3
_QUIET_ARCHIVE = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"

_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",  # a batch shuffles a few thousand aggregates
    "spark.sql.adaptive.enabled": "false",  # one job per batch instead of two
    "spark.sql.ansi.enabled": "false",  # a value that does not convert is null, never the end of the query
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.catalogImplementation": "in-memory",
    # The default uses Hadoop's FileContext, which forks a `chmod` for every file: 70 ms per batch instead of 20.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
_LOCAL_DEFAULTS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.authenticate": "true",  # with a secret that Spark makes and keeps in the JVM's memory
}
_CLUSTER_DEFAULTS = {
    # Else the tasks of a streaming query do not see Python files added to the context.
    "spark.sql.artifact.isolation.enabled": "false"
}
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_CHECK_JARS = "-Divy.checksums=sha1,md5"  # else Spark's Ivy compares no jar with the checksum beside it
_COMPILE_LATER = (
    "-XX:Tier4InvocationThreshold=50000 -XX:Tier4MinInvocationThreshold=6000 "
    "-XX:Tier4CompileThreshold=150000 -XX:Tier4BackEdgeThreshold=400000"
)
"""Ten times the JVM's own thresholds: the optimising compiler, which takes a third of the CPU of the first half minute,
compiles only code that runs often.
"""
_JVM_ERROR = re.compile(
    r'(?:Exception in thread "main" |Caused by: |Error: )?(?!A fatal exception|Could not create the Java)'
    r"((?:[\w.$]+(?:Exception|Error): |Invalid |Unrecognized |Error occurred ).*)"
)
_WORKER_PYTHON = Path(__file__).with_name("worker-python")
"""A script that starts a worker's Python in a fifth of the time."""
_MAX_NAME = ".00000000-0000-0000-0000-000000000000.sock"
"""As long as the names that Spark gives its sockets."""
_directory: PrivateDirectory | None = None
"""Where this process's session keeps temporary files and sockets; it ends with the session."""
_COORDINATES = re.compile(r"[^:\s]+:[^:\s]+:[^:\s]+")


class _Helper(Struct):
    """The only helper of this process: first a timer, then the process that it starts."""

    timer: threading.Timer | None = None
    process: "subprocess.Popen[bytes] | None" = None


_helper = _Helper()


def java_options(java: Java) -> str:
    """The JVM options that use the archive made for `java`; empty if no archive exists.

    UsageError if others can change it: it is code that the JVM runs.
    """
    archive = find_archive(java)
    if archive is None:
        return ""
    check_only_ours(archives(), "the JVM's class archive:")
    with suppress(OSError):  # it is root's
        os.utime(archive)  # `keep_archive` deletes those that were not used for long
    return f'{_QUIET_ARCHIVE} -Xshare:auto "-XX:SharedArchiveFile={archive}"'


def archive_dump_options(target: Path) -> str:
    """The JVM options that write an archive to `target` when the JVM exits."""
    return f'{_QUIET_ARCHIVE} "-XX:ArchiveClassesAtExit={target}"'


def find_archive(java: Java) -> Path | None:
    """The archive for `java`; its name includes its size, since a JVM crashes on a truncated one."""
    for path in archives().glob(f"{archive_key(java)}-*.jsa"):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
    return None


def archive_key(java: Java) -> str:
    """The prefix of the names of archives for `java`, this PySpark and the location of its jars."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    parts = (java.banner, pyspark.__version__, str(jars), str(jars.stat().st_mtime_ns))
    return "spark-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def archives() -> Path:
    """The directory of the archives."""
    return Path(platformdirs.user_cache_dir("wmtop")) / "jvm"


def failed_archive_mark(java: Java) -> Path:
    """The file that marks that this JVM cannot make an archive."""
    return archives() / f"{archive_key(java)}.failed"


def is_archive_settled(java: Java) -> bool:
    """Whether there is an archive, or none can be made."""
    return find_archive(java) is not None or failed_archive_mark(java).exists()


def keep_archive(java: Java, made: Path) -> Path:
    """Put the archive `made` in its place, in one step, and delete those beyond a few that were used longest ago."""
    target = archives() / f"{archive_key(java)}-{made.stat().st_size}.jsa"
    made.replace(target)
    for old in sorted(archives().glob("*.jsa"), key=lambda path: path.stat().st_mtime_ns, reverse=True)[_MAX_ARCHIVES:]:
        old.unlink(missing_ok=True)
    return target


def make_archive_later(java: Java, wait_s: float = _ARCHIVE_AFTER_S) -> None:
    """Start the helper that makes the archive after `wait_s`, unless there is one or none can be made."""
    if sys.platform == "win32" or is_archive_settled(java):
        return
    _helper.timer = threading.Timer(wait_s, _start_helper)
    _helper.timer.daemon = True
    _helper.timer.start()


def stop_archive_helper() -> None:
    """Stop what `make_archive_later` started."""
    if _helper.timer is not None:
        _helper.timer.cancel()
        _helper.timer.join()  # it may be starting the helper right now
    process = _helper.process
    if process is not None and process.stdin is not None:
        process.stdin.close()
        process.wait()
    _helper.timer = _helper.process = None


def _start_helper() -> None:
    # The pipe to the helper's standard input closes when this process dies, however it dies; the helper then ends, too.
    _helper.process = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.warm_up"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def check_version(needed: tuple[int, int]) -> None:
    """UsageError if the installed PySpark is older than `needed`: a job may have any version from 3.5 on."""
    import pyspark

    installed = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if installed < needed:
        minimum = ".".join(map(str, needed))
        raise UsageError(
            f"this needs PySpark {minimum}, but {pyspark.__version__} is installed; run "
            f"pip install 'pyspark>={minimum},<4.4' in an environment of its own"
        )


def build_session(
    *,
    master: str = "local[*]",
    app_name: str = "wmtop",
    conf: Mapping[str, str] | None = None,
    packages: Sequence[str] = (),
    jars: Sequence[str] = (),
    log: Path | None = None,
    archive: bool = True,
    needed: tuple[int, int] = (4, 3),
) -> "SparkSession":
    """Start the JVM and the session; the output of the JVM and its Python workers goes to `log` (None: to this
    process's).

    `conf` overrides the defaults. With `archive` the JVM uses a class-data archive, and makes one for the next start if
    there is none. UsageError without a usable Java or with a PySpark older than `needed`, RunError if Spark does not
    start.
    """
    check_version(needed)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    _check_artifacts(packages, jars)
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        raise UsageError(
            "wmtop starts Spark itself: run it without spark-submit, and give --master and --conf to 'wmtop run'"
        )
    if SparkContext._active_spark_context is not None:  # pyright: ignore[reportPrivateUsage]
        raise RunError("this process already runs a Spark session", code="second_session")
    java = find_java()
    _set_environment(master, java.home, (conf or {}).get("spark.pyspark.python"))
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    options = java_options(java) if archive else ""
    settings = _settings(master, app_name, conf or {}, packages, jars, options)
    spark_conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))
    said_before = log.stat().st_size if log is not None and log.exists() else 0
    try:
        context = SparkContext(conf=spark_conf, gateway=_launch(spark_conf, log))
        context.setLogLevel(settings.get("spark.log.level", "WARN" if log else "ERROR"))
        session = SparkSession.builder.getOrCreate()
        take_calls(context._gateway)  # pyright: ignore[reportPrivateUsage]
        # Else Hadoop's local file system, of which a JVM has one, writes checksums into a file beside each, and forks
        # a `chmod` for either file: 12 ms a batch of a query.
        hadoop: Any = context._jvm.org.apache.hadoop.fs.FileSystem  # pyright: ignore
        hadoop.getLocal(context._jsc.hadoopConfiguration()).setWriteChecksum(False)  # pyright: ignore
    except BaseException as error:  # also a signal that stops the start
        _abandon()
        if not isinstance(error, Exception):
            raise
        raise RunError(_why_not(error, log, said_before)) from error
    if archive:
        make_archive_later(java)
    return session


def jvm_process(spark: "SparkSession") -> "subprocess.Popen[bytes]":
    """The session's JVM (the start scripts replace themselves by it)."""
    return _gateway(spark).proc


def ask_jvm(spark: "SparkSession") -> None:
    """Return when the JVM has answered a question; an error of py4j if it has ended."""
    _gateway(spark).jvm.java.lang.System.nanoTime()


def stop_session(spark: "SparkSession", timeout_s: float = 10.0) -> None:
    """Stop Spark and its JVM, and wait until it has ended; kills it after `timeout_s`. A dead JVM is not an error."""
    from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

    stop_archive_helper()
    process = jvm_process(spark)
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # that the JVM is gone
        spark.stop()
    with suppress(Py4JError, OSError):
        _gateway(spark).shutdown()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()  # the JVM ends with its standard input
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _forget_session()


def forget_sockets(spark: "SparkSession") -> None:
    """Let the JVM forget the sockets of past answers: it keeps the path of each one until it ends
    (`java.io.DeleteOnExitHook`), one for each batch.
    """
    from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]

    if _directory is None:
        return
    java: Any = _gateway(spark).jvm.java
    with suppress(Py4JError):  # another Java, or a path that comes at this moment: the next time will do
        field = java.lang.Class.forName("java.io.DeleteOnExitHook").getDeclaredField("files")
        field.setAccessible(True)
        kept = field.get(None)
        others = java.util.ArrayList()
        for path in str(java.lang.String.join("\n", kept)).split("\n"):
            if not path.startswith(str(_directory.path)):
                others.add(path)
        kept.retainAll(others)


def _check_artifacts(packages: Sequence[str], jars: Sequence[str]) -> None:
    for package in packages:
        if not _COORDINATES.fullmatch(package):
            raise UsageError(
                f"--packages: {package!r} is not GROUP:ARTIFACT:VERSION, as in org.apache.kafka:kafka-clients:3.9.2"
            )
    for jar in jars:
        if "://" not in jar and not Path(jar).is_file():
            raise UsageError(f"--jars: no file {jar}; check the path")


def _set_environment(master: str, java_home: Path, python: str | None) -> None:
    """Set the environment for Spark; `python`: the executors' Python, if the user's settings name it."""
    import pyspark

    os.environ["JAVA_HOME"] = str(java_home)
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)  # not another installed version
    if python is not None:
        os.environ["PYSPARK_PYTHON"] = python
    elif is_local_master(master) or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else the workers take `python3` from PATH
    if python is None and is_local_master(master) and os.access(_WORKER_PYTHON, os.X_OK):
        os.environ["WMTOP_PYTHON"], os.environ["PYSPARK_PYTHON"] = sys.executable, str(_WORKER_PYTHON)
    if is_local_master(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # no look-up of a host name that may not resolve
    os.environ["PYSPARK_PIN_THREAD"] = "true"  # a stop interrupts the function of a batch only so
    os.environ["PYTHONSAFEPATH"] = "1"  # else the workers import from the current directory first


def _settings(
    master: str, app_name: str, conf: Mapping[str, str], packages: Sequence[str], jars: Sequence[str], java_options: str
) -> dict[str, str]:
    global _directory
    # A task is tried four times, as on a cluster: a worker that is killed (out of memory) does not end the query.
    tried = re.sub(r"^local\[([^,\]]+)\]$", r"local[\1,4]", master)
    settings = {"spark.master": tried, "spark.app.name": app_name, **_DEFAULTS}
    settings |= _LOCAL_DEFAULTS if is_local_master(master) else _CLUSTER_DEFAULTS
    for name, given in (("spark.jars.packages", packages), ("spark.jars", jars)):
        settings |= {name: ",".join(given)} if given else {}
    _directory = PrivateDirectory("wmtop-spark-")
    directory = _directory.path
    settings["spark.sql.warehouse.dir"] = str(directory / "warehouse")  # never made
    settings |= _local_sockets(directory) if is_local_master(master) else {}
    settings |= conf
    # Also `spark.local.dir` is there, unless the user names one.
    parts = (f'"-Djava.io.tmpdir={directory}"', _COMPILE_LATER, _CHECK_JARS, settings.get(_JAVA_OPTIONS), java_options)
    return settings | {_JAVA_OPTIONS: " ".join(filter(None, parts))}


def _local_sockets(directory: Path) -> dict[str, str]:
    """Spark and its Python workers talk through Unix sockets: over TCP an answer waits 40 ms for an acknowledgement.

    The directory is our own, which keeps others from connecting; TCP where its path is too long for a socket.
    """
    trial = directory / _MAX_NAME
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(trial))
        trial.unlink()
    except (OSError, AttributeError):  # Windows has no such sockets
        return {}
    return {"spark.python.unix.domain.socket.enabled": "true", "spark.python.unix.domain.socket.dir": str(directory)}


def _forget_session() -> None:
    """Remove the directory of a session that has ended, and what PySpark keeps of it: else no other could follow."""
    from pyspark import SparkContext

    global _directory
    if _directory is not None:
        _directory.remove()
    _directory = None
    SparkContext._gateway = SparkContext._jvm = None  # pyright: ignore[reportPrivateUsage]


def _launch(conf: Any, log: Path | None) -> Any:
    from pyspark.java_gateway import launch_gateway  # pyright: ignore[reportUnknownVariableType]

    before = _children()
    try:
        if log is None:
            return launch_gateway(conf)
        with log.open("ab") as file:
            return launch_gateway(conf, {"stdout": file, "stderr": file})
    except BaseException:  # a hanging JVM would not notice our end
        for pid in _children() - before:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)  # not every container's first process does it for us
        raise


def _children() -> set[int]:
    """The process ids of all child processes of this one; empty if /proc does not list them."""
    lists = (file.read_text().split() for file in Path("/proc/self/task").glob("*/children"))
    return {int(pid) for pids in lists for pid in pids}


def _abandon() -> None:
    """End a JVM that started but made no session."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway  # pyright: ignore[reportPrivateUsage]
    if gateway is not None:
        gateway.proc.kill()
        gateway.proc.wait()
    _forget_session()


def _why_not(error: Exception, log: Path | None, said_before: int) -> str:
    """One line: the JVM's last error after byte `said_before` of the log, else the error in Python."""
    if isinstance(error, socket.gaierror):
        return "Spark did not start: cannot resolve localhost; add the line '127.0.0.1 localhost' to /etc/hosts"
    lines = (
        log.read_bytes()[said_before:].decode(errors="replace").splitlines() if log is not None and log.exists() else []
    )
    last = [match.group(1) for match in map(_JVM_ERROR.match, lines) if match]
    reason = last[-1] if last else first_line(error)
    return f"Spark did not start: {reason.strip()}" + (f" (log: {log})" if log is not None else "")


def _gateway(spark: "SparkSession") -> Any:
    return spark.sparkContext._gateway  # pyright: ignore[reportPrivateUsage]
