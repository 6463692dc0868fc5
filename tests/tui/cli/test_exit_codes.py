"""Exit codes of real processes: 1 of `check` is a verdict only, whatever happens to its output or its input."""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.messages import Reply
from wmtop.engine.feed.publisher import Publisher

from tests.snapshots import replace

from ..canned import header
from .checkpoints import history
from .test_check import HEALTHY, STUCK, recorded

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full")


def wmtop(
    *arguments: object,
    stdout: int | IO[str] = subprocess.PIPE,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run the command; `env` are further variables."""
    command = [sys.executable, "-m", "wmtop.tui.cli", *map(str, arguments)]
    return subprocess.run(
        command,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )


@pytest.fixture
def well(tmp_path: Path) -> Path:
    return recorded(tmp_path / "well.rec", HEALTHY)


@pytest.fixture
def ill(tmp_path: Path) -> Path:
    return recorded(tmp_path / "ill.rec", STUCK)


@needs_full
@pytest.mark.parametrize("buffering", ["", "1"])
@pytest.mark.parametrize(
    ("command", "code"),
    [(("check",), 3), (("check", "--json"), 3), (("watch",), 3), (("replay", "--once"), 1), (("replay", "--json"), 1)],
)
def test_a_full_output_is_one_line_and_no_verdict(
    command: tuple[str, ...], code: int, buffering: str, ill: Path
) -> None:
    with FULL.open("w") as full:
        done = wmtop(command[0], ill, *command[1:], stdout=full, env={"PYTHONUNBUFFERED": buffering})
    assert (done.returncode, done.stderr.count("\n")) == (code, 1)
    assert "standard output" in done.stderr


def test_a_closed_output_is_one_line_and_no_verdict(ill: Path) -> None:
    """No file that is opened later takes its place."""
    for command, code in ((f"check {ill}", 3), (f"replay {ill} --json", 1), ("--version", 1)):
        done = subprocess.run(
            ["/bin/sh", "-c", f"exec {sys.executable} -m wmtop.tui.cli {command} >&-"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr.count("\n")) == (code, 1)
        assert "standard output" in done.stderr
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec {sys.executable} -m wmtop.tui.cli check {ill} 2>&-"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, "STALLED" in done.stdout) == (1, True)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8", "cp1252"])
def test_any_encoding_of_the_output_has_the_answer(encoding: str, well: Path, ill: Path) -> None:
    for path, code in ((well, 0), (ill, 1)):
        for more in ((), ("--json",)):
            done = wmtop("check", path, *more, env={"PYTHONIOENCODING": encoding})
            assert (done.returncode, done.stderr) == (code, "")
    assert json.loads(done.stdout)["findings"], "what is escaped is still JSON"


def test_a_reader_that_leaves_is_no_verdict(ill: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = wmtop("check", ill, stdout=writing)
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr) == (3, "")


def test_damaged_input_is_no_verdict(ill: Path, tmp_path: Path) -> None:
    content = ill.read_bytes()
    for place in range(0, len(content), len(content) // 7):
        damaged = bytearray(content)
        damaged[place : place + 16] = bytes(16)
        ill.write_bytes(damaged)
        done = wmtop("check", ill)
        assert done.returncode in (1, 2, 3), done.stderr
        assert done.returncode != 1 or "STALLED" in done.stdout
        assert "Traceback" not in done.stderr
    (tmp_path / "config.toml").write_text('[targets.orders]\nattach = "/x')
    done = wmtop("check", "orders", env={"WMTOP_CONFIG": str(tmp_path / "config.toml")})
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)


def test_an_unforeseen_error_of_one_target_hides_no_other(well: Path, ill: Path) -> None:
    script = (
        "import sys; from wmtop.tui import cli; from wmtop.tui.cli import check\n"
        "look_at = check.look_at\n"
        "def fail(member, *more):\n"
        "    if 'well' in member.name: raise KeyError('strange')\n"
        "    return look_at(member, *more)\n"
        "check.look_at = fail; cli.main()\n"
    )
    for targets, code in (((well,), 3), ((well, ill), 1)):
        done = subprocess.run(
            [sys.executable, "-c", script, "check", *map(str, targets), "--json"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert (done.returncode, done.stderr, [one["exit"] for one in found]) == (code, "", [3, 1][: len(targets)])
        assert "unexpected KeyError" in found[0]["reason"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ((), 1),
        (("--fail-on", "never"), 1),  # findings do not count, verdicts do
        (("--fail-if", "behind_fastest > 1h"), 0),
        (("--fail-if", "behind_fastest > 1h", "--fail-on", "critical"), 1),
        (("--fail-if", "backlog_time > 1m"), 3),
    ],
)
def test_the_exit_agrees_with_what_is_printed(more: tuple[str, ...], code: int, ill: Path) -> None:
    done = wmtop("check", ill, *more)
    assert (done.returncode, done.stderr) == (code, "")
    assert "STALLED" in done.stdout
    assert ("false: behind_fastest > 1h (behind_fastest is" in done.stdout) == ("behind_fastest > 1h" in more)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[run_directory.RunInfo]:
    """A running engine with the name `flights`, whose watermark advances."""
    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as directory:
        monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, f"{directory}/run")
        with run_directory.claim("flights", "", 1) as claim:
            sent = replace(header(), name="flights", id=claim.run.id)
            with Publisher(claim.run.socket, sent, lambda asked: Reply(id=asked.id, ok=False, text="")) as publisher:
                for snapshot in HEALTHY.published:
                    publisher.publish(snapshot)
                yield claim.run


def test_a_file_does_not_hide_an_engine(engine: run_directory.RunInfo, tmp_path: Path) -> None:
    done = wmtop("check", "flights", "--fail-on", "never", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["read"]) == (0, "running engine")
    recorded(tmp_path / "flights", STUCK)
    commands = (
        ("check",), ("attach", "--once"), ("export", "--json", "--once"), ("preview", "--lateness", "1h"), ("advise",),
        ("replay", "--once"), ("report", "-o", "out.zip"), ("serve",),
    )  # fmt: skip
    for command, *more in commands:
        done = wmtop(command, "flights", *more, cwd=tmp_path)
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1), command
        assert "./flights" in done.stderr
        assert str(engine.socket) in done.stderr
    done = wmtop("check", "./flights", "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["read"].split(",")[0]) == (1, "recording")
    done = wmtop("check", engine.socket, "--json", cwd=tmp_path)
    assert (done.returncode, json.loads(done.stdout)["read"]) == (0, "running engine")
    (tmp_path / "config.toml").write_text('[targets.flights]\nattach = "./flights"\n[targets.run]\nattach = "flights"')
    configured = {"WMTOP_CONFIG": str(tmp_path / "config.toml")}
    assert wmtop("check", "flights", cwd=tmp_path, env=configured).returncode == 1, "the configuration comes first"
    assert wmtop("check", "run", cwd=tmp_path, env=configured).returncode == 0, "and has paths with a slash only"


def test_a_moment_is_written_as_on_the_screen_of_a_recording(ill: Path) -> None:
    first, last = (STUCK.published[place].now_ms or 0 for place in (0, -1))
    of_day = time.strftime("%H:%M:%S", time.gmtime(last // 1000))
    for at in ("+2m", f"-{(last - first - 120_000) // 1000}s", of_day, str(last)):
        done = wmtop("replay", ill, "--once", "--json", "--at", at)
        now_ms = json.loads(done.stdout)["now_ms"]
        assert abs(now_ms - (last if at[0] not in "+-" else first + 120_000)) <= 2_000, at
    done = wmtop("check", ill, "--at", "noon")
    assert (done.returncode, done.stderr.count("\n"), "'noon'" in done.stderr) == (2, 1, True)


@pytest.mark.parametrize("target", ["nosuch", "./nosuch"])
@pytest.mark.parametrize("how", [("--json",), ("--prometheus", ":0")])
def test_export_of_what_does_not_exist_ends(target: str, how: tuple[str, ...], tmp_path: Path) -> None:
    done = wmtop("export", target, *how, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.count("\n"), "nosuch" in done.stderr) == (2, "", 1, True)


def test_export_reports_a_lost_target_once_and_keeps_trying(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('[targets.gone]\nattach = "./gone.rec"')
    process = subprocess.Popen(
        [sys.executable, "-m", "wmtop.tui.cli", "export", "gone", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "WMTOP_CONFIG": str(tmp_path / "config.toml"), "WMTOP_REFRESH": "200ms"},
    )  # fmt: skip
    try:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(8)]
        assert lines[-1]["targets"][0]["verdict"] == "unknown"
        recorded(tmp_path / "gone.rec", HEALTHY)
        deadline = time.monotonic() + 60
        while json.loads(process.stdout.readline())["targets"][0]["verdict"] == "unknown":
            assert time.monotonic() < deadline
    finally:
        process.terminate()
    _, err = process.communicate(timeout=60)
    assert (err.count("\n"), err.count("gone is lost")) == (1, 1)


def test_the_documented_probe_restarts_only_a_query_that_begins_no_batch(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs" / "operating.md").read_text()
    [command] = re.findall(r"command: \[sh, -c, '(.*)'\]", text)
    (tmp_path / "wmtop").write_text(f'#!/bin/sh\nexec {sys.executable} -m wmtop.tui.cli "$@"\n')
    (tmp_path / "wmtop").chmod(0o755)
    path = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    now_ms = time.time_ns() // 1_000_000
    history(tmp_path / "alive", now_ms=now_ms, batches=9, every_ms=2_000)
    history(tmp_path / "hung", now_ms=now_ms - 86_400_000, batches=9, every_ms=2_000)
    (tmp_path / "broken" / "offsets").mkdir(parents=True)
    (tmp_path / "broken" / "offsets" / "0").write_bytes(bytes(range(256)))
    for name, more, code in (
        ("alive", "", 0), ("hung", "", 1), ("missing", "", 0), ("broken", "", 0), ("hung", " >/dev/full", 0),
    ):  # fmt: skip
        probe = command.replace("/checkpoints/orders", str(tmp_path / name)).replace("; test", f"{more}; test")
        done = subprocess.run(["/bin/sh", "-c", probe], env=path, capture_output=True, text=True, check=False)
        assert done.returncode == code, (name, more, done.stdout, done.stderr)


def test_an_error_repeats_no_character_that_a_terminal_obeys(well: Path, tmp_path: Path) -> None:
    login = tmp_path / "client.properties"
    login.write_text("security.protocol=SSL\\u001b[2J\n")
    expression = wmtop("check", well, "--fail-if", "\x1b[2Jlag {")
    properties = wmtop("check", "kafka://127.0.0.1:1/x", "--kafka-config", login)
    for run in (expression, properties):
        assert run.returncode == 2
        assert "2J" in run.stderr
        assert run.stderr.removesuffix("\n").isprintable()
