"""`wmtop doctor-env` and `wmtop --version`: what this machine has, and what to change so that wmtop works on it."""

import os
import platform
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Literal

import msgspec
import typer
from msgspec import Struct

from ...engine.errors import UsageError
from ...engine.feed import rundir
from ...engine.java import find_java
from ..present.formatting import clean, counted
from .config.force import config, config_path

SPARK_NEEDED = (4, 3)
LEAST_MEMORY = 1_500 * 1024**2
LEAST_DISK = 1024**3
LEAST_COLUMNS, LEAST_LINES = 80, 24
PORTS = {8080: "wmtop serve", 9464: "wmtop export --prometheus"}


class EnvironmentCheck(Struct, frozen=True):
    """One checked property; `fix` is what to change unless it is `ok`."""

    name: str
    status: Literal["ok", "warning", "error"]
    found: str
    fix: str | None = None


def versions() -> str:
    """The versions of wmtop and its dependencies, a line each, without starting Spark."""
    spark, java = _installed("pyspark") or "not installed", _java()
    return "\n".join(
        (
            f"wmtop {version('wmtop')}",
            f"Spark {spark} (PySpark)",
            f"Java {java.found}" if java.status == "ok" else "Java not found",
            f"Textual {_installed('textual')}",
            f"Python {platform.python_version()} ({sys.executable})",
            f"platform {platform.platform()}",
        )
    )


def doctor_env(json: Annotated[bool, typer.Option("--json", help="print one JSON object a check")] = False) -> None:
    """Check Java, Spark, memory, disk, ports, terminal and configuration; exit 1 if something must be changed."""
    checks = [check() for check in CHECKS]
    for each in checks:
        print(msgspec.json.encode(each).decode() if json else _line(each))
    raise typer.Exit(1 if any(each.status == "error" for each in checks) else 0)


def _line(each: EnvironmentCheck) -> str:
    fix = f"\n         fix: {each.fix}" if each.fix else ""
    return f"{each.status:<8} {each.name:<14} {clean(each.found)}{fix}"


def _python() -> EnvironmentCheck:
    return EnvironmentCheck("Python", "ok", f"{platform.python_version()} on {platform.platform()}")


def _spark() -> EnvironmentCheck:
    found = _installed("pyspark")
    wanted = ".".join(map(str, SPARK_NEEDED))
    if found is None:
        return EnvironmentCheck("Spark", "error", "PySpark is not installed", f"pip install 'pyspark>={wanted},<4.4'")
    if tuple(int(part) for part in found.split(".")[:2]) < SPARK_NEEDED:
        fix = f"`wmtop run` and `demo` need {wanted}: install wmtop as a tool of its own, e.g. uv tool install wmtop"
        return EnvironmentCheck("Spark", "warning", f"PySpark {found}", fix)
    return EnvironmentCheck("Spark", "ok", f"PySpark {found}")


def _java() -> EnvironmentCheck:
    try:
        java = find_java()
    except UsageError as error:
        said, _, fix = str(error).rpartition(": ")
        return EnvironmentCheck("Java", "error", said, f"for `wmtop run` and `demo`: {fix}")
    return EnvironmentCheck("Java", "ok", f"{java.major} in {java.home}")


def _memory() -> EnvironmentCheck:
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        with open("/proc/meminfo", encoding="ascii") as lines:
            free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, StopIteration):
        return EnvironmentCheck("memory", "ok", "not known on this system")
    found = f"{free / 1024**3:.1f} GiB available"
    if free < LEAST_MEMORY:
        return EnvironmentCheck("memory", "warning", found, "`wmtop run` takes about 1.5 GiB with Spark: free some")
    return EnvironmentCheck("memory", "ok", found)


def _disk() -> EnvironmentCheck:
    place = tempfile.gettempdir()
    free = shutil.disk_usage(place).free
    found = f"{free / 1024**3:.1f} GiB free in {place}"
    if free < LEAST_DISK:
        return EnvironmentCheck("disk", "warning", found, "set TMPDIR to a directory with more space")
    return EnvironmentCheck("disk", "ok", found)


def _runs() -> EnvironmentCheck:
    try:
        runs = rundir.list_runs()
    except UsageError as error:
        return EnvironmentCheck("run directory", "error", str(error), f"set {rundir.RUN_DIR_VARIABLE} to a short path")
    return EnvironmentCheck("run directory", "ok", counted(len(runs), "running engine"))


def _network() -> EnvironmentCheck:
    try:
        socket.getaddrinfo(socket.gethostname(), None)
        socket.getaddrinfo("localhost", None)
    except OSError:
        fix = f"add `127.0.0.1 localhost {socket.gethostname()}` to /etc/hosts: Spark needs both names"
        return EnvironmentCheck("network", "error", "this machine does not know its own name or localhost", fix)
    return EnvironmentCheck("network", "ok", f"localhost and {socket.gethostname()} resolve")


def _ports() -> EnvironmentCheck:
    taken = [f"{port} ({used_by})" for port, used_by in PORTS.items() if not _is_free(port)]
    if taken:
        return EnvironmentCheck(
            "ports", "warning", f"in use: {', '.join(taken)}", "choose another: --port, --prometheus"
        )
    return EnvironmentCheck("ports", "ok", f"{' and '.join(map(str, PORTS))} are free on loopback")


def _terminal() -> EnvironmentCheck:
    if not sys.stdout.isatty():
        return EnvironmentCheck("terminal", "ok", "none: only commands that print work here")
    columns, lines = shutil.get_terminal_size()
    found = f"{columns}x{lines}, TERM={os.environ.get('TERM', '')}, {sys.stdout.encoding}"
    if "utf" not in (sys.stdout.encoding or "").lower():
        return EnvironmentCheck("terminal", "warning", found, "set a UTF-8 locale, e.g. LC_ALL=C.UTF-8")
    if os.environ.get("TERM", "dumb") == "dumb":
        return EnvironmentCheck("terminal", "warning", found, "set TERM, e.g. xterm-256color")
    if columns < LEAST_COLUMNS or lines < LEAST_LINES:
        return EnvironmentCheck("terminal", "warning", found, f"use at least {LEAST_COLUMNS}x{LEAST_LINES}")
    return EnvironmentCheck("terminal", "ok", found)


def _configuration() -> EnvironmentCheck:
    path, _ = config_path()
    try:
        targets = len(config().targets)
    except UsageError as error:
        return EnvironmentCheck("configuration", "error", str(error), f"correct {path}")
    found = f"{path}, {counted(targets, 'target')}" if path.exists() else f"none; it would be {path}"
    return EnvironmentCheck("configuration", "ok", found)


CHECKS: tuple[Callable[[], EnvironmentCheck], ...] = (
    _python, _spark, _java, _memory, _disk, _runs, _network, _ports, _terminal, _configuration
)  # fmt: skip


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
