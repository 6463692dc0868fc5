"""Logs, versions and shell completion, as a user calls them."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from .commands import run

WMTOP = [sys.executable, "-m", "wmtop.tui.cli"]


def wmtop(*arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*WMTOP, *arguments], capture_output=True, text=True, env=os.environ | environment, check=False
    )


def test_the_version_names_what_it_runs_on() -> None:
    said = wmtop("--version").stdout
    for name in ("wmtop", "pyspark", "textual"):
        assert version(name) in said
    assert sys.version.split()[0] in said


def test_the_log_is_lines_of_json_and_an_error_is_in_it(tmp_path: Path) -> None:
    file = tmp_path / "wmtop.log"
    done = wmtop("--log-file", str(file), "check", "nothing-here")
    assert done.returncode == 2
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert all({"time", "level", "logger", "pid", "message"} <= set(line) for line in lines)
    assert [line["level"] for line in lines] == ["info", "error"]
    assert "nothing-here" in lines[-1]["message"]
    wmtop("check", "nothing-here", WMTOP_LOG_FILE=str(file), WMTOP_LOG_LEVEL="error")
    assert [json.loads(line)["level"] for line in file.read_text().splitlines()[2:]] == ["error"]


@pytest.mark.parametrize("options", [["--log-level", "loud"], ["--log-level", "info"], ["--log-file", "/no/such/file"]])
def test_a_log_that_cannot_be_is_one_line(options: list[str]) -> None:
    done = wmtop(*options, "runs")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_completes_commands_options_and_targets(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[targets.orders]\nattach = "/x"\n[targets.clicks]\nattach = "/y"\n')
    (tmp_path / "wmtop").write_text(f'#!/bin/sh\nexec {sys.executable} -m wmtop.tui.cli "$@"\n')
    (tmp_path / "wmtop").chmod(0o755)

    def completed(*words: str) -> list[str]:
        line = " ".join(f"'{word}'" for word in ("wmtop", *words))
        script = (
            f'source <(wmtop completion bash); COMP_WORDS=({line}); COMP_CWORD={len(words)}; '
            '_wmtop_completion wmtop; printf "%s\\n" "${COMPREPLY[@]}"'
        )  # fmt: skip
        environment = os.environ | {
            "PATH": f"{tmp_path}:{os.environ['PATH']}", "WMTOP_CONFIG": str(tmp_path / "config.toml")
        }  # fmt: skip
        return subprocess.run(
            ["bash", "-c", script], capture_output=True, text=True, env=environment, check=True
        ).stdout.split()

    assert completed("che") == ["check"]
    assert completed("check", "--fa") == ["--fail-if", "--fail-on"]
    assert {"orders", "clicks"} <= set(completed("attach", ""))
    assert completed("export", "ord") == ["orders"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_completes_at_the_first_tab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """That Tab loads the script as the function `_wmtop`."""
    (tmp_path / "_wmtop").write_text(run(capsys, "completion", "zsh")[1])
    (tmp_path / "wmtop").write_text(f'#!/bin/sh\nexec {sys.executable} -m wmtop.tui.cli "$@"\n')
    (tmp_path / "wmtop").chmod(0o755)
    script = (
        f"PATH={tmp_path}:$PATH; fpath=({tmp_path}); autoload -U _wmtop; "
        "compdef() { : }; _arguments() { print $* }; words=(wmtop che); CURRENT=2; _wmtop"
    )
    done = subprocess.run(["zsh", "-fc", script], capture_output=True, text=True, check=True)
    assert "check" in done.stdout


def test_each_command_has_an_example() -> None:
    from wmtop.tui.cli.examples import EXAMPLES
    from wmtop.tui.cli.main import COMMANDS

    assert {*COMMANDS, ""} <= set(EXAMPLES)
    assert all(line.startswith("wmtop") for lines in EXAMPLES.values() for line in lines)
