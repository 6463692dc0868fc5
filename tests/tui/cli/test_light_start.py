"""What only looks starts at once: it loads neither Spark nor, where there is no screen, Textual, Arrow or numpy."""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .checkpoints import history

FLIGHTS = Path(__file__).parents[2] / "doctor" / "flights-lateness-3h.rec"

SPARK = {"pyspark", "py4j", "wmtop.engine.run"}
SCREEN = {"textual", "rich.console"}
TABLES = {"pyarrow", "numpy", "pandas"}
RUN = """
import sys
from wmtop.tui import cli
try:
    cli.main()
finally:
    print(*sys.modules, sep="\\n", file=open({modules!r}, "w"))
"""

NOTHING_HEAVY = SPARK | SCREEN | TABLES
CASES = {
    "check CK": NOTHING_HEAVY | {"asyncio"},
    "check REC": NOTHING_HEAVY,
    "attach CK --once --json": NOTHING_HEAVY,
    "advise REC": NOTHING_HEAVY,
    "replay REC --once --json": NOTHING_HEAVY,
    "export --dashboard": NOTHING_HEAVY,
    "--json --once": NOTHING_HEAVY,
    "runs": NOTHING_HEAVY,
    "config": NOTHING_HEAVY,
    "--help": NOTHING_HEAVY,
    "--version": NOTHING_HEAVY | {"typer", "wmtop.tui.words", "wmtop.engine.watermarks"},
    "report REC -o out.zip": SPARK,
}


@pytest.fixture
def run_dir() -> Iterator[str]:
    """Its path must be short: there are sockets in it."""
    with tempfile.TemporaryDirectory(prefix="wmtop-", dir="/tmp") as path:
        yield path


@pytest.mark.parametrize("command", CASES)
def test_a_command_that_looks_loads_nothing_heavy(command: str, tmp_path: Path, run_dir: str) -> None:
    words = command.split()
    places = {"CK": tmp_path / "orders", "REC": FLIGHTS}
    if "CK" in words or "--json" in words[:1]:
        history(places["CK"], now_ms=time.time_ns() // 1_000_000, batches=100, every_ms=2_000)
    (tmp_path / "config.toml").write_text(f'[targets.orders]\nattach = "{places["CK"]}"\n')
    modules = tmp_path / "modules"
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(modules=str(modules)), *(str(places.get(word, word)) for word in words)],
        cwd=tmp_path,
        env=os.environ
        | {
            "WMTOP_RUN_DIR": run_dir,
            "WMTOP_CONFIG": str(tmp_path / "config.toml"),
            "PATH": str(tmp_path),  # no java to be found
            "JAVA_HOME": "",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 1, 3), done.stderr
    assert "unexpected" not in done.stderr
    loaded = set(modules.read_text().split())
    assert "msgspec" in loaded or command == "--help"
    assert sorted(CASES[command] & loaded) == []


def test_the_start_screen_needs_neither_the_other_screens_nor_the_engine() -> None:
    later = ("screens.main", "screens.target_screen", "screens.doctor", "screens.help", "widgets.tables")
    lines = (
        "import sys",
        "from wmtop.tui.cli.main import command_line",
        "command_line(['demo'])",
        "import wmtop.tui.screens.app, wmtop.engine.feed.client, wmtop.engine.system.files",
        "print(*sys.modules)",
    )
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "wmtop.tui.screens.start" in loaded
    assert sorted({f"wmtop.tui.{name}" for name in later} & loaded) == []
    assert sorted({"wmtop.engine.watermarks.monitor", "numpy", "secrets", "tomllib", "zipfile"} & loaded) == []
