"""Jars, such as those of a Kafka broker: fetched once by Maven into the user's cache directory, shared by all."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import platformdirs

from ...errors import RunError, UsageError, first_line
from ...java import find_java
from ...locks import lock_file

KAFKA_VERSION = "4.1.0"

_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
# Kafka logs through slf4j and has no logger of its own: the simple one needs no configuration file.
_POM = f"""\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>wmtop</groupId>
  <artifactId>kafka-jars</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>kafka_2.13</artifactId><version>{KAFKA_VERSION}</version>
    </dependency>
    <dependency>
      <groupId>org.slf4j</groupId><artifactId>slf4j-simple</artifactId><version>1.7.36</version>
    </dependency>
  </dependencies>
</project>
"""
_PARTIAL = "fetching-kafka-"
_LONGEST = 300


def kafka_jars(report: Callable[[str], None] = lambda text: None) -> Path:
    """The directory of a broker's jars, fetched (45 MB) if they are missing.

    UsageError without Maven, RunError if Maven fails.
    """
    return fetched_jars(f"kafka-{KAFKA_VERSION}", _POM, f"fetching Kafka {KAFKA_VERSION} (45 MB, once)", report)


def fetched_jars(
    name: str, pom: str, doing: str, report: Callable[[str], None] = lambda text: None, *,
    what: str = "a local Kafka broker", instead: str = "give a running broker: wmtop run kafka BOOTSTRAP TOPIC",
) -> Path:  # fmt: skip
    """The directory of a pom's dependencies, under its own name in the cache; errors as in `kafka_jars`.

    `what` needs the jars; `instead` is what to do without Maven.
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
    with (cache / "kafka.lock").open("w") as lock:
        lock_file(lock)
        if not jars.is_dir():  # else another process has fetched them in the meantime
            report(doing)
            _fetch(maven, pom, jars, what)
    return jars


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
