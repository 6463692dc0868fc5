"""Shared by benchmarks: a directory for a run, and the CPU time of processes."""

import os
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wmtop.engine.feed.run_directory import RUN_DIR_VARIABLE

_LOOK_S = 0.05


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
    return sum(sum(map(int, fields[11:15])) for fields in _tree(os.getpid()).values()) / os.sysconf("SC_CLK_TCK")


def run_to_its_end(command: list[str], **options: Any) -> tuple["subprocess.CompletedProcess[str]", float, float]:
    """A command's end and output, its wall-clock seconds, and the CPU seconds of all its processes.

    These are looked at every 50 ms, because nobody is told what Spark's Python workers took: their parent ignores their
    end.
    """
    began, ended = time.monotonic(), threading.Event()
    spent: dict[tuple[int, str], int] = {}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
        watch = threading.Thread(target=_note_cpu, args=(process.pid, spent, ended))
        watch.start()
        said, errors = process.communicate()
        wall_s = time.monotonic() - began
        ended.set()
        watch.join()
    done = subprocess.CompletedProcess(command, process.returncode, said, errors)
    return done, wall_s, sum(spent.values()) / os.sysconf("SC_CLK_TCK")


def _note_cpu(root: int, spent: dict[tuple[int, str], int], ended: threading.Event) -> None:
    """Keep the clock ticks that each process below `root` has used, by its id and start, until `ended`."""
    while not ended.wait(_LOOK_S):
        for pid, fields in _tree(root).items():
            spent[pid, fields[19]] = sum(map(int, fields[11:13]))


def cpu_by_part(pid: int) -> dict[str, float]:
    """The CPU seconds of a process and its descendants so far: Python's processes, and the JVM's threads by kind."""
    parts: dict[str, float] = {}
    for process in _tree(pid):
        with suppress(OSError):  # it has ended
            tasks = Path(f"/proc/{process}/task").iterdir() if _name(Path(f"/proc/{process}")) == "java" else ()
            for place in tasks or (Path(f"/proc/{process}"),):
                kind = _kind(_name(place)) if tasks else f"process {_name(place)}"
                spent = sum(map(int, (place / "stat").read_text().rpartition(")")[2].split()[11:13]))
                parts[kind] = parts.get(kind, 0) + spent / os.sysconf("SC_CLK_TCK")
    return dict(sorted(parts.items(), key=lambda part: -part[1]))


def _kind(thread: str) -> str:
    kinds = {"C2": "JVM: optimising compiler", "C1": "JVM: quick compiler", "G": "JVM: garbage collection"}
    return next((kind for start, kind in kinds.items() if thread.startswith(start)), "JVM: all else")


def _name(place: Path) -> str:
    return (place / "comm").read_text().strip()


def _tree(root: int) -> dict[int, list[str]]:
    """`/proc/PID/stat` of a process and all its descendants."""
    found: dict[int, list[str]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found[int(path.name)] = _stat(int(path.name))
    tree = {root}
    while more := {pid for pid, fields in found.items() if int(fields[1]) in tree} - tree:
        tree |= more
    return {pid: fields for pid, fields in found.items() if pid in tree}


def _stat(pid: int) -> list[str]:
    """The fields of `/proc/PID/stat` after the name, which may hold blanks."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
