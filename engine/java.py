"""The Java for Spark and Kafka: where it is, whether it is usable, and how to install one."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from .errors import UsageError

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
    "winget": "winget install EclipseAdoptium.Temurin.17.JRE",
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
    raise UsageError(
        f"Spark needs Java {NEEDED} or newer, {'found only ' + have if have else 'none was found'}: {how_to_install()}",
        code="no_java",
    )


def how_to_install() -> str:
    """The command of this machine's package manager that installs Java."""
    tool = next((tool for tool in _INSTALL if shutil.which(tool)), None)
    if tool is not None:
        return _INSTALL[tool]
    where = " and set JAVA_HOME" if sys.platform == "win32" else ""
    return f"install one from https://adoptium.net{where}"


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
