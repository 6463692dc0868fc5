"""`wmtop --version`: the versions of wmtop and of what it runs on."""

import platform
import sys
from importlib.metadata import PackageNotFoundError, version

from ...engine.system.errors import UsageError
from ...engine.system.java import find_java


def versions() -> str:
    """The versions of wmtop and its dependencies, a line each, without starting Spark."""
    spark = _installed("pyspark") or "not installed"
    return "\n".join(
        (
            f"wmtop {version('wmtop')}",
            f"Spark {spark} (PySpark)",
            f"Java {_java() or 'not found'}",
            f"Textual {_installed('textual')}",
            f"Python {platform.python_version()} ({sys.executable})",
            f"platform {platform.platform()}",
        )
    )


def _java() -> str | None:
    try:
        java = find_java()
    except UsageError:
        return None
    return f"{java.major} in {java.home}"


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
