"""Watching works without the extras (the golden tests run so, too), and a missing one is one line that names it."""

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import pytest
from wmtop.engine.system.installation import install_command

ROOT = Path(__file__).parents[1]
RECORDING = next((ROOT / "tests" / "doctor").glob("*.rec"))


def wmtop(directory: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    path = os.pathsep.join([str(ROOT), *(entry for entry in sys.path if entry)])
    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as run:
        return subprocess.run(
            [sys.executable, "-m", "tests.without_extras", *arguments],
            env=os.environ | {"PYTHONPATH": path, "HOME": str(directory), "WMTOP_RUN_DIR": run},
            cwd=directory,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.mark.parametrize(
    ("extra", "command"),
    [
        ("run", "demo"),
        ("run", "demo --flink"),
        ("run", "run rate"),
        ("run", "run replay flights.parquet --time scheduled"),
        ("run", "run kafka localhost:1 orders --time at"),
        ("run", "attach checkpoint --state-reader spark --once --json"),
        ("serve", "serve checkpoint"),
        ("s3", "check s3://bucket/orders"),
        ("s3", "attach gs://bucket/orders --once --json"),
    ],
    ids=str,
)
def test_a_missing_extra_is_one_line_that_names_it(tmp_path: Path, extra: str, command: str) -> None:
    for part in ("commits", "offsets", "state"):
        (tmp_path / "checkpoint" / part).mkdir(parents=True)
    (tmp_path / "checkpoint" / "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000001"}')
    done = wmtop(tmp_path, *command.split())
    assert done.stdout == ""
    [line] = done.stderr.splitlines()
    assert line.endswith(f": {install_command(extra)}")
    assert f"'wmtop[{extra}] @ " in line  # the index has no wmtop of ours
    assert done.returncode == 2


@pytest.mark.parametrize(
    "command",
    [
        "--version", "--help", "run --help", "run replay --help", "config", "--json --once",
        f"report {RECORDING} --out out.zip", f"replay {RECORDING} --once --json", "export --alert-rules",
    ],
    ids=lambda command: command.replace(str(RECORDING), "RECORDING"),
)  # fmt: skip
def test_a_command_needs_no_extra(tmp_path: Path, command: str) -> None:
    done = wmtop(tmp_path, *command.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout


def test_the_extras_are_those_of_the_package() -> None:
    """What a message tells to install exists."""
    from wmtop.engine.system import errors

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(errors._EXTRAS) <= set(extras)  # pyright: ignore[reportPrivateUsage]
