"""A class-data archive for the JVM: with it Spark starts in about half the time; everything works without it, too.

It takes about 160 MB in the user's cache directory, one for each Java, PySpark and location of its jars. Making one
takes a whole warm-up run, so a helper process with the lowest priority does it, once, beside an engine that has run for
a while; the helper ends with the engine.
"""

import hashlib
import os
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import platformdirs
from msgspec import Struct

from ..java import Java

_WAIT_S = 60.0
"""How long (s) an engine must run before the archive is made: short runs are left alone."""
_KEPT = 3
_QUIET = "-Xlog:cds=off -Xlog:cds+dynamic=off -Xlog:class+path=off"


class _Helper(Struct):
    """The only helper of this process: first a timer, then the process that it starts."""

    timer: threading.Timer | None = None
    process: "subprocess.Popen[bytes] | None" = None


_helper = _Helper()


def java_options(java: Java) -> str:
    """The JVM options that use the archive made for `java`; empty if no archive exists."""
    archive = find(java)
    if archive is None:
        return ""
    with suppress(OSError):  # it is another user's
        os.utime(archive)  # `keep` deletes those that were not used for long
    return f'{_QUIET} -Xshare:auto "-XX:SharedArchiveFile={archive}"'


def dump_options(target: Path) -> str:
    """The JVM options that write an archive to `target` when the JVM exits."""
    return f'{_QUIET} "-XX:ArchiveClassesAtExit={target}"'


def find(java: Java) -> Path | None:
    """The archive for `java`; its name includes its size, since a JVM crashes on a truncated one."""
    for path in cache().glob(f"{key(java)}-*.jsa"):
        if path.stem.endswith(f"-{path.stat().st_size}"):
            return path
    return None


def key(java: Java) -> str:
    """The prefix of the names of archives for `java`, this PySpark and the location of its jars."""
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    parts = (java.banner, pyspark.__version__, str(jars), str(jars.stat().st_mtime_ns))
    return "spark-" + hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def cache() -> Path:
    """The directory of the archives."""
    return Path(platformdirs.user_cache_dir("wmtop")) / "jvm"


def failed_mark(java: Java) -> Path:
    """The file that marks that this JVM cannot make an archive."""
    return cache() / f"{key(java)}.failed"


def keep(java: Java, made: Path) -> Path:
    """Put the archive `made` in its place, in one step, and delete those beyond a few that were used longest ago."""
    target = cache() / f"{key(java)}-{made.stat().st_size}.jsa"
    made.replace(target)
    for old in sorted(cache().glob("*.jsa"), key=lambda path: path.stat().st_mtime_ns, reverse=True)[_KEPT:]:
        old.unlink(missing_ok=True)
    return target


def make_later(java: Java, wait_s: float = _WAIT_S) -> None:
    """Start the helper that makes the archive after `wait_s`; does nothing if there is an archive, or none can
    be made.
    """
    if sys.platform == "win32" or find(java) is not None or failed_mark(java).exists():
        return
    _helper.timer = threading.Timer(wait_s, _start)
    _helper.timer.daemon = True
    _helper.timer.start()


def give_up() -> None:
    """Stop what `make_later` started."""
    if _helper.timer is not None:
        _helper.timer.cancel()
        _helper.timer.join()  # it may be starting the helper right now
    process = _helper.process
    if process is not None and process.stdin is not None:
        process.stdin.close()
        process.wait()
    _helper.timer = _helper.process = None


def _start() -> None:
    # The pipe to the helper's standard input closes when this process dies, however it dies; the helper then ends, too.
    _helper.process = subprocess.Popen(
        [sys.executable, "-m", f"{__package__}.warm_up"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
