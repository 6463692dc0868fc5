"""Shared by benchmarks: a directory for a run, and the CPU time of processes."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from wmtop.engine.feed.rundir import RUN_DIR_VARIABLE


@contextmanager
def scratch() -> Iterator[Path]:
    """A new directory, whose `run` is where this process lists its runs."""
    with tempfile.TemporaryDirectory(prefix="wmtop-bench-", dir="/tmp") as name:
        directory = Path(name)
        (directory / "run").mkdir(mode=0o700)
        os.environ[RUN_DIR_VARIABLE] = str(directory / "run")
        yield directory


def process_cpu_s(pid: int) -> float:
    """The CPU seconds that a process has used so far, without its children."""
    return sum(map(int, _stat(pid)[11:13])) / os.sysconf("SC_CLK_TCK")


def tree_cpu_s() -> float:
    """The CPU seconds that this process and all its descendants have used so far."""
    parents: dict[int, int] = {}
    spent: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*"):
        pid = int(path.name)
        try:
            fields = _stat(pid)
        except OSError:
            continue
        parents[pid], spent[pid] = int(fields[1]), sum(map(int, fields[11:15]))
    tree = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in tree} - tree:
        tree |= more
    return sum(spent[pid] for pid in tree) / os.sysconf("SC_CLK_TCK")


def _stat(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` after the name, which may hold blanks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
