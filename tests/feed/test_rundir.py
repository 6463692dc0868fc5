import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.run_directory import (
    Claim,
    check_name,
    claim,
    claim_free,
    find_run,
    list_runs,
    log_path,
    run_dir,
    socket_path,
)
from wmtop.engine.system.errors import RunError, UsageError

from ..refusals import refused

ENGINE = """
import socket, sys
from wmtop.engine.system.errors import UsageError
from wmtop.engine.feed.run_directory import claim, claim_free

print("ready", flush=True)
sys.stdin.readline()
try:
    taken = {call}
except UsageError as error:
    print("refused", error.code, flush=True)
else:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(taken.run.socket))
    listener.listen()
    print(taken.run.name, flush=True)
    sys.stdin.readline()
"""


def start_engine(call: str) -> "subprocess.Popen[str]":
    """A process that claims when it is told to, says which name it got, and keeps it until it is killed."""
    engine = subprocess.Popen(
        [sys.executable, "-c", ENGINE.format(call=call)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert read_line(engine) == "ready"
    return engine


def read_line(engine: "subprocess.Popen[str]") -> str:
    assert engine.stdout is not None
    return engine.stdout.readline().strip()


def go(engine: "subprocess.Popen[str]") -> None:
    assert engine.stdin is not None
    engine.stdin.write("go\n")
    engine.stdin.flush()


def kill(engine: "subprocess.Popen[str]") -> None:
    engine.kill()
    engine.communicate()


def test_directory_is_made_private(run_directory: Path) -> None:
    assert run_dir() == run_directory
    assert run_directory.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o701, 0o500])
def test_directory_with_another_mode_is_refused(run_directory: Path, mode: int) -> None:
    run_directory.mkdir()
    run_directory.chmod(mode)
    with refused(UsageError, "not_private", f"chmod 700 {run_directory}"):
        list_runs()


def test_directory_of_another_user_is_refused(run_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_directory.mkdir(mode=0o700)
    other_user = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other_user)
    with refused(UsageError, "another_user", run_directory):
        run_dir()


def test_link_is_refused(run_directory: Path, short_dir: Path) -> None:
    (short_dir / "elsewhere").mkdir(mode=0o700)
    run_directory.symlink_to(short_dir / "elsewhere")
    with refused(UsageError, "link", run_directory):
        run_dir()


def test_file_in_its_place_is_refused(run_directory: Path) -> None:
    run_directory.write_text("")
    with refused(UsageError, "not_made", run_directory):
        run_dir()


def test_default_is_the_state_directory_of_this_host(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WMTOP_RUN_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(short_dir))
    monkeypatch.setattr(socket, "gethostname", lambda: "node7")
    assert run_dir() == short_dir / "wmtop" / "run-node7"


def test_long_home_falls_back_to_a_short_path(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WMTOP_RUN_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(short_dir / ("long" * 20)))
    monkeypatch.setattr(run_directory, "_FALLBACK", str(short_dir / "wmtop-{uid}-{key}"))
    said = reported_lines(monkeypatch)
    path = run_dir()
    assert (path.parent, path.name.startswith(f"wmtop-{os.geteuid()}-")) == (short_dir, True)
    assert not (short_dir / ("long" * 20)).exists()
    assert run_dir() == path
    [line] = said  # once
    assert str(path) in line
    assert str(short_dir / ("long" * 20)) in line
    assert "WMTOP_RUN_DIR" in line


def reported_lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines about the run directory from now on."""
    lines: list[str] = []
    monkeypatch.setattr(run_directory, "_report", lines.append)
    return lines


def test_home_that_cannot_be_written_falls_back(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (short_dir / "home").write_text("not a directory")
    monkeypatch.delenv("WMTOP_RUN_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(short_dir / "home"))
    monkeypatch.setattr(run_directory, "_FALLBACK", str(short_dir / "wmtop-{uid}-{key}"))
    said = reported_lines(monkeypatch)
    assert run_dir().parent == short_dir
    [line] = said
    assert str(short_dir / "home") in line


def test_engines_of_one_name_and_two_long_homes_are_kept_apart(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WMTOP_RUN_DIR", raising=False)
    monkeypatch.setattr(run_directory, "_FALLBACK", str(short_dir / "wmtop-{uid}-{key}"))
    reported_lines(monkeypatch)
    claims: list[Claim] = []
    for home in ("a" * 80, "b" * 80):
        monkeypatch.setenv("XDG_STATE_HOME", str(short_dir / home))
        claims.append(claim("orders", "the orders", 0))
        assert [run.name for run in list_runs()] == ["orders"]
    for each in claims:
        each.release()


def test_a_run_directory_in_a_store_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WMTOP_RUN_DIR", "s3://bucket/engines")
    with refused(UsageError, "uri", "WMTOP_RUN_DIR", "s3://bucket/engines"):
        run_dir()


def test_longest_path_still_takes_a_socket(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = run_directory._DIR_LIMIT - len(str(short_dir)) - 1
    monkeypatch.setenv("WMTOP_RUN_DIR", str(short_dir / ("d" * room)))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(socket_path("n" * run_directory.NAME_LIMIT)))
    monkeypatch.setenv("WMTOP_RUN_DIR", str(short_dir / ("d" * (room + 1))))
    with refused(UsageError, "too_long"):
        run_dir()


@pytest.mark.parametrize("name", ["flights", "9", "a.b_c-d", "x" * 32])
def test_good_names(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "-x", "a b", "x" * 33, "a\n", "ü", "a\0"])
def test_bad_names(name: str) -> None:
    with refused(UsageError, "bad_name", repr(name)):
        check_name(name)


@pytest.mark.usefixtures("run_directory")
def test_a_claimed_name_is_listed_until_released() -> None:
    with claim("flights", "replay flights.parquet", 1234) as mine:
        assert list_runs() == [mine.run] == [find_run("flights")]
        assert (mine.run.pid, mine.run.started_ms) == (os.getpid(), 1234)
        assert mine.run.socket == socket_path("flights")
        assert mine.run.log == str(log_path("flights"))
        with refused(UsageError, "taken", "flights", "--name"):
            claim("flights", "another", 1)
        assert list_runs() == [mine.run]
    assert list_runs() == []
    mine.release()
    claim("flights", "again", 1).release()


@pytest.mark.usefixtures("run_directory")
def test_find_names_what_is_running() -> None:
    with refused(UsageError, "no_engine", "flights"):
        find_run("flights")
    with claim("b", "", 0), claim("a", "", 0), refused(UsageError, "no_engine", "a, b"):
        find_run("flights")


@pytest.mark.usefixtures("run_directory")
@pytest.mark.parametrize(
    ("base", "names"),
    [
        ("flights", ["flights", "flights-2", "flights-3"]),
        ("my file (1)", ["my-file-1", "my-file-1-2", "my-file-1-3"]),
        ("x" * 50, ["x" * 32, "x" * 30 + "-2", "x" * 30 + "-3"]),
        ("../ü", ["engine", "engine-2", "engine-3"]),
    ],
)
def test_free_names(base: str, names: list[str]) -> None:
    claims = [claim_free(base, "", 0) for _ in names]
    assert [taken.run.name for taken in claims] == names
    for taken in claims:
        taken.release()


@pytest.mark.usefixtures("run_directory")
def test_of_engines_that_start_at_once_one_gets_the_name() -> None:
    engines = [start_engine("claim('flights', '', 0)") for _ in range(5)]
    for engine in engines:
        go(engine)
    said = [read_line(engine) for engine in engines]
    assert said.count("flights") == 1
    assert said.count("refused taken") == 4
    for engine in engines:
        kill(engine)


@pytest.mark.usefixtures("run_directory")
def test_engines_that_start_at_once_get_different_free_names() -> None:
    engines = [start_engine("claim_free('flights', '', 0)") for _ in range(4)]
    for engine in engines:
        go(engine)
    assert sorted(read_line(engine) for engine in engines) == ["flights", "flights-2", "flights-3", "flights-4"]
    assert sorted(run.pid for run in list_runs()) == sorted(engine.pid for engine in engines)
    for engine in engines:
        kill(engine)


def test_leftovers_of_a_killed_engine_are_removed(run_directory: Path) -> None:
    engine = start_engine("claim('flights', '', 0)")
    go(engine)
    assert read_line(engine) == "flights"
    log_path("flights").write_text("why it died")
    assert [run.name for run in list_runs()] == ["flights"]
    kill(engine)
    assert (run_directory / "flights.sock").exists()
    assert list_runs() == []
    assert sorted(path.name for path in run_directory.iterdir()) == [".lock", "flights.log"]
    claim("flights", "", 0).release()


def test_a_directory_that_vanishes_does_not_stop_the_engine(run_directory: Path) -> None:
    with claim("flights", "", 0):
        shutil.rmtree(run_directory)
    assert list_runs() == []


def test_a_directory_that_cannot_be_used_is_one_line(run_directory: Path) -> None:
    run_directory.mkdir(mode=0o700)
    (run_directory / ".lock").mkdir()
    with refused(RunError, "unusable", run_directory, os.strerror(errno.EISDIR)):
        list_runs()


def test_a_damaged_description_is_one_line(run_directory: Path) -> None:
    with claim("flights", "", 0):
        (run_directory / "flights.json").write_bytes(b'{"name": "\xff"}')
        with refused(RunError, "damaged", "flights.json"):
            list_runs()


def test_a_claim_takes_over_from_a_killed_engine(run_directory: Path) -> None:
    engine = start_engine("claim('flights', '', 0)")
    go(engine)
    assert read_line(engine) == "flights"
    kill(engine)
    with claim("flights", "", 0):
        assert not (run_directory / "flights.sock").exists()
        assert find_run("flights").pid == os.getpid()


@pytest.mark.usefixtures("run_directory")
def test_a_program_that_the_engine_started_does_not_keep_its_name() -> None:
    """A JVM may outlive its driver by a moment."""
    engine = start_engine("claim(str(__import__('subprocess').Popen(['sleep', '600'], stdout=2).pid), '', 0)")
    go(engine)
    child = int(read_line(engine))
    try:
        kill(engine)
        os.kill(child, 0)
        assert list_runs() == []
    finally:
        os.kill(child, signal.SIGKILL)


ADOPT = """
import sys
from wmtop.engine.system.errors import RunError
from wmtop.engine.feed.run_directory import adopt

try:
    taken = adopt(int(sys.argv[1]), sys.argv[2], sys.argv[3], "the child's", 7)
except RunError as error:
    sys.exit(error.code)
print("adopted", flush=True)
sys.stdin.readline()
taken.release()
"""


def adopting(lock: int, name: str, run_id: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", ADOPT, str(lock), name, run_id],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=(lock,),
    )  # fmt: skip


@pytest.mark.usefixtures("run_directory")
def test_a_name_that_is_handed_over_belongs_to_the_child_from_then_on() -> None:
    mine = claim("flights", "mine", 1)
    child = adopting(mine.lock, "flights", mine.run.id)
    assert read_line(child) == "adopted"
    mine.hand_over()
    found = find_run("flights")
    assert (found.pid, found.id, found.description) == (child.pid, mine.run.id, "the child's")
    with refused(UsageError, "taken"):
        claim("flights", "another", 1)
    mine.release()  # it is not ours any more
    assert find_run("flights") == found
    child.communicate("end\n")
    assert list_runs() == []


@pytest.mark.usefixtures("run_directory")
def test_a_name_that_was_not_handed_over_is_refused() -> None:
    with claim("flights", "mine", 1) as mine, claim("other", "", 1):
        child = adopting(mine.lock, "other", mine.run.id)
        _, error = child.communicate()
        assert child.returncode == 1
        assert error.strip() == "not_passed_on"
        assert find_run("flights") == mine.run


@pytest.mark.usefixtures("run_directory")
def test_each_run_has_an_id_of_its_own() -> None:
    with claim("flights", "", 1) as first:
        pass
    with claim("flights", "", 1) as second:
        assert first.run.id != second.run.id
        assert find_run("flights").id == second.run.id
