"""The Java for Spark and Kafka, and jars from Maven Central, fetched once and shared by all runs.

`jars.sha512` pins them, as `sha512sum` prints it in the cache's directory; a jar that differs is not used.
"""

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import platformdirs
from msgspec import Struct

from .errors import RunError, UsageError, first_line
from .files import lock_file

NEEDED = 17
"""Oldest Java version on which Spark 4 and Kafka 4 start."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_USUAL_PLACES = (
    "/usr/lib/jvm/*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
_INSTALL = {
    "apt-get": "sudo apt-get install openjdk-17-jre-headless (or a newer one)",
    "dnf": "sudo dnf install java-21-openjdk-headless",
    "zypper": "sudo zypper install java-17-openjdk-headless",
    "pacman": "sudo pacman -S jre17-openjdk-headless",
    "apk": "apk add openjdk17-jre-headless",
    "brew": "brew install openjdk@17",
}


class Java(Struct, frozen=True):
    """A Java installation: its home, its major version, and the whole output of `java -version`."""

    home: Path
    major: int
    banner: str


def find_java() -> Java:
    """The first usable Java of `JAVA_HOME`, PATH and the usual places; `UsageError` without one."""
    found: list[Java] = []
    for home in _homes():
        java = _look(home)
        if java is not None and java.major >= NEEDED:
            return java
        if java is not None:
            found.append(java)
    have = ", ".join(f"{java.major} in {java.home}" for java in found)
    how = (command for tool, command in _INSTALL.items() if shutil.which(tool))
    raise UsageError(
        f"Spark needs Java {NEEDED} or newer, {'found only ' + have if have else 'none was found'}: "
        f"{next(how, 'install one from https://adoptium.net')}",
        code="no_java",
    )


def _homes() -> Iterator[Path]:
    if os.environ.get("JAVA_HOME"):
        yield Path(os.environ["JAVA_HOME"])
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    for pattern in _USUAL_PLACES:
        yield from sorted(Path("/").glob(pattern.lstrip("/")))


def _look(home: Path) -> Java | None:
    """The Java in `home`; None if its `java` is missing, or is macOS's stub."""
    try:
        said = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        ).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = _VERSION.search(said)
    return None if version is None else Java(home, int(version.group(1)), said)


_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_OPTIONS = ("-q", "-B", "--strict-checksums")
_PROJECT = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>wmtop</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
_NO_MORE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_PARTIAL = "fetching-jars-"
PINS = Path(__file__).parent / "jars.sha512"
_LONGEST = 300


def fetched_jars(
    name: str, artifacts: Sequence[str], doing: str, report: Callable[[str], None] = lambda text: None, *,
    what: str, instead: str, alone: bool = False,
) -> Path:  # fmt: skip
    """The directory of these artifacts (`group:name:version`) and, unless they come `alone`, of what they depend on;
    under its own `name` in the cache, where it is fetched if it is missing.

    `what` needs the jars; `instead` is what to do without Maven; `report` gets `doing`. UsageError without Maven,
    RunError if Maven fails, or if the jars of a pinned `name` are not those pinned.
    """
    cache = Path(platformdirs.user_cache_dir("wmtop"))
    jars = cache / name
    if jars.is_dir():
        if (wrong := _unpinned(jars, name)) is not None:
            raise RunError(
                f"{jars / wrong} is not the file that this wmtop pins (SHA-512); "
                f"find out who changed it, then remove {jars}: it is fetched again",
                code="not_pinned",
            )
        return jars
    maven = shutil.which("mvn")
    if maven is None:
        raise UsageError(
            f"{what} needs Maven, once, to fetch its jars, and no mvn was found; install Maven, or {instead}",
            code="no_maven",
        )
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "jars.lock").open("w") as lock:
        lock_file(lock)
        if not jars.is_dir():  # else another process has fetched them in the meantime
            report(doing)
            _fetch(maven, _PROJECT.format("".join(_dependency(artifact, alone) for artifact in artifacts)), jars, what)
    return jars


def _dependency(artifact: str, alone: bool) -> str:
    group, name, version = artifact.split(":")
    asked = f"<groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version>"
    return f"<dependency>{asked}{_NO_MORE if alone else ''}</dependency>"


def _fetch(maven: str, pom: str, jars: Path, what: str) -> None:
    """Have Maven put them beside `jars`, then rename: a directory at `jars` is complete."""
    for left in jars.parent.glob(f"{_PARTIAL}*"):  # left by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(prefix=_PARTIAL, dir=jars.parent) as directory:
        file, made = Path(directory, "pom.xml"), Path(directory, "jars")
        file.write_text(pom)
        done = subprocess.run(
            [maven, *_OPTIONS, "-f", file, _GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={made}"],
            env={**os.environ, "JAVA_HOME": str(find_java().home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode or not any(made.glob("*.jar")):
            raise RunError(f"Maven could not fetch the jars of {what}: {_reason(done.stdout)}", code="not_fetched")
        if (wrong := _unpinned(made, jars.name)) is not None:
            raise RunError(
                f"{wrong}, as Maven fetched it for {what}, is not the file that this wmtop pins (SHA-512); "
                "check the mirrors in Maven's settings.xml, and remove the file from its local repository (~/.m2)",
                code="not_pinned",
            )
        made.rename(jars)


def _unpinned(directory: Path, name: str) -> str | None:
    """The first that is missing in a directory, not pinned for `name`, no file, or changed; None also without pins."""
    lines = (line.split() for line in PINS.read_text().splitlines())
    pinned = {path.removeprefix(f"{name}/"): digest for digest, path in lines if path.startswith(f"{name}/")}
    if not pinned:
        return None
    present = {path.name: path for path in directory.iterdir()}
    for file in sorted(pinned.keys() | present.keys()):
        if file not in pinned or file not in present or not present[file].is_file():
            return file
        with present[file].open("rb") as content:
            if hashlib.file_digest(content, "sha512").hexdigest() != pinned[file]:
                return file
    return None


def _reason(said: str) -> str:
    errors = [line.partition("[ERROR]")[2].strip() for line in said.splitlines() if "[ERROR]" in line]
    return next(filter(None, errors), first_line(said) or "it printed nothing")[:_LONGEST]
