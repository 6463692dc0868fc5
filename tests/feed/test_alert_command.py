"""`--on-alert`: the command gets each alert, never holds the engine back, and its failure is said once."""

import json
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from wmtop.engine.feed.alert_command import AlertCommand, parse_command
from wmtop.engine.snapshot import Reason, Verdict, VerdictName
from wmtop.engine.system.errors import UsageError

from ..refusals import refused
from .conftest import START_MS, MakeSnapshot

WRITER = "import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text() + sys.stdin.read())"


def watch(command: AlertCommand, snapshot: MakeSnapshot, *turns: tuple[int, VerdictName]) -> None:
    """Snapshots a second apart: each verdict for so many seconds."""
    names = [name for seconds, name in turns for _ in range(seconds)]
    for number, name in enumerate(names):
        command.see(snapshot(number, verdict=Verdict(name, reason=Reason("advancing"))))


@pytest.fixture
def said() -> list[str]:
    return []


def test_the_command_gets_each_alert(tmp_path: Path, snapshot: MakeSnapshot, said: list[str]) -> None:
    out = tmp_path / "out"
    out.write_text("")
    command = AlertCommand([sys.executable, "-c", WRITER, str(out)], "flights", said.append)
    watch(command, snapshot, (60, "moving"), (200, "stalled"), (10, "moving"))
    command.see(snapshot(300, state="failed", error="the JVM died\nand more"))
    command.close()
    got = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["code"], one["verdict"], one["wall_ms"]) for one in got] == [
        ("verdict_changed", "stalled", START_MS + 60_005),
        ("verdict_changed", "moving", START_MS + 260_005),
        ("engine_lost", "unknown", START_MS + 300_005),
    ]
    assert {one["target"] for one in got} == {"flights"}
    assert got[-1]["args"]["why"] == "the JVM died"
    assert said == []
    assert command.note is None


def test_a_command_that_hangs_delays_nothing_and_is_killed(
    tmp_path: Path, snapshot: MakeSnapshot, said: list[str]
) -> None:
    began = time.monotonic()
    command = AlertCommand(["sleep", "600"], "flights", said.append, limit_s=0.2)
    watch(command, snapshot, (60, "moving"), (200, "stalled"))
    command.close()
    assert time.monotonic() - began < 60
    assert len(said) == 1
    assert command.note is not None
    assert command.note.code == "alert_failed"


@pytest.mark.parametrize("argv", [["false"], ["/no/such/program"]])
def test_a_failure_is_said_once(snapshot: MakeSnapshot, said: list[str], argv: list[str]) -> None:
    command = AlertCommand(argv, "flights", said.append)
    watch(command, snapshot, (60, "moving"), (200, "stalled"), (200, "moving"), (200, "stalled"))
    command.close()
    assert len(said) == 1


def test_no_shell_sees_the_command(tmp_path: Path) -> None:
    assert parse_command("echo '$HOME ; rm' \"a b\"") == ["echo", "$HOME ; rm", "a b"]


@pytest.mark.parametrize("text", ["", "  ", "echo 'open", "/no/such/program x", "no-such-program-here"])
def test_what_cannot_be_run_is_refused_at_once(text: str) -> None:
    with refused(UsageError, "", "--on-alert"):
        parse_command(text)


def test_what_the_command_prints_is_not_ours(capfd: pytest.CaptureFixture[str], snapshot: MakeSnapshot) -> None:
    """Standard output may be the NDJSON of `--json`."""
    command = AlertCommand(shlex.split("echo noise"), "flights", lambda line: None)
    watch(command, snapshot, (60, "moving"), (60, "stalled"))
    command.close()
    out, err = capfd.readouterr()
    assert out == ""
    assert "noise" in err


def quiet(line: str) -> None:
    raise AssertionError(line)


def test_the_json_carries_the_numbers(tmp_path: Path, snapshot: MakeSnapshot) -> None:
    say: Callable[[str], None] = quiet
    out = tmp_path / "out"
    command = AlertCommand(["tee", str(out)], "flights", say)
    watch(command, snapshot, (30, "moving"), (30, "stalled"))
    command.close()
    assert json.loads(out.read_text())["args"]["before"] == "moving"
