"""The helper that makes a class-data archive: runs Spark once through an engine's work, at the lowest priority.

Run as `python -m wmtop.engine.run.warm_up` with a pipe as standard input; it ends when that closes. With the
argument `--untied` it ignores its standard input, and returns when an archive exists, whichever helper makes it.
"""

import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..system.files import lock_file, try_lock_file
from ..system.java import find_java
from ..watermarks.settings import Settings
from . import session
from .durable_state import StateDirectory
from .query import Run
from .session import build_session, stop_session
from .sources.columns import Columns
from .sources.replay import Replay

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DUMP_S = 300.0
_ROWS = "".join(f'{{"at": {i % 97}, "came": {i}, "channel": "c{i % 5}"}}\n' for i in range(3_000))


def main() -> None:
    """Make the archive for this Java, unless there is one, none can be made, or another helper makes one."""
    untied = "--untied" in sys.argv
    os.setsid()  # a process group of its own, so that all of it can be ended
    os.nice(19)
    java = find_java()
    if session.is_archive_settled(java):
        return
    session.archives().mkdir(mode=0o700, parents=True, exist_ok=True)
    with (session.archives() / "lock").open("w") as lock:
        if untied:
            lock_file(lock)
        elif not try_lock_file(lock):
            return
        if session.is_archive_settled(java):
            return
        directory = session.archives() / "making"
        shutil.rmtree(directory, ignore_errors=True)  # left by a helper that was killed
        directory.mkdir()
        tempfile.tempdir = str(directory)  # what is left if this is killed goes with it
        archive = directory / "classes.jsa"
        # Each class is used only a few times: the optimising compiler would take a third of the work.
        java_options = f"-XX:TieredStopAtLevel=1 {session.archive_dump_options(archive)}"
        options = {"spark.driver.extraJavaOptions": java_options, "spark.driver.memory": "600m"}
        if not untied:
            threading.Thread(target=_end_with_standard_input, daemon=True).start()
        spark = build_session(master="local[1]", conf=options, log=directory / "log", archive=False)
        exercise(spark, directory)
        stop_session(spark, _DUMP_S)
        if archive.exists():
            session.keep_archive(java, archive)
        else:
            session.failed_archive_mark(java).touch()
        shutil.rmtree(directory)


def exercise(spark: "SparkSession", directory: Path) -> None:
    """A small replay through the whole pipeline, so that its classes are loaded."""
    file = directory / "rows.jsonl"
    file.write_text(_ROWS)
    source = Replay(
        [file], Columns(time="at", channel="channel", arrival="came"), directory / "staged", batch_rows=1_000
    )
    source.prepare(lambda text: None)
    state = StateDirectory(directory / "state")
    state.lock()
    run = Run(source, Settings(), state, None, lambda: None)
    run.load(spark)
    run.start()
    while not run.exhausted:
        run.check()
        time.sleep(0.1)
    run.end()
    run.stop()
    state.unlock()


def _end_with_standard_input() -> None:
    """Kill this process group with its JVM and workers when standard input closes: else the JVM writes its archive."""
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main()
