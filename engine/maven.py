"""Jars from Maven Central, such as those of a Kafka broker: fetched once into the cache directory, shared by all."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import platformdirs

from .errors import RunError, UsageError, first_line
from .java import find_java
from .locks import lock_file

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_PROJECT = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>wmtop</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{}</dependencies>
</project>
"""
_NO_MORE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
_PARTIAL = "fetching-jars-"
_LONGEST = 300


def fetched_jars(
    name: str, artifacts: Sequence[str], doing: str, report: Callable[[str], None] = lambda text: None, *,
    what: str, instead: str, alone: bool = False,
) -> Path:  # fmt: skip
    """The directory of these artifacts (`group:name:version`) and, unless they come `alone`, of what they depend on;
    under its own `name` in the cache, where it is fetched if it is missing.

    `what` needs the jars; `instead` is what to do without Maven; `report` gets `doing`. UsageError without Maven,
    RunError if Maven fails.
    """
    cache = Path(platformdirs.user_cache_dir("wmtop"))
    jars = cache / name
    if jars.is_dir():
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
            [maven, "-q", "-B", "-f", file, _GOAL, "-DincludeScope=runtime", f"-DoutputDirectory={made}"],
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
        made.rename(jars)


def _reason(said: str) -> str:
    errors = [line.partition("[ERROR]")[2].strip() for line in said.splitlines() if "[ERROR]" in line]
    return next(filter(None, errors), first_line(said) or "it printed nothing")[:_LONGEST]
