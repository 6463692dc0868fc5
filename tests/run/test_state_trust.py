"""A state directory is trusted only where only its user can change it, and it never decides that code is run."""

import grp
import os
import pickle
import pwd
import stat
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from wmtop.engine.run.durable_state import SavedState, StateDirectory
from wmtop.engine.system import ownership
from wmtop.engine.system.errors import UsageError
from wmtop.engine.watermarks.generators import CustomGenerator
from wmtop.engine.watermarks.monitor import Monitor, new_monitor
from wmtop.engine.watermarks.settings import Settings

from ..refusals import refused
from ..tui.cli.commands import run

SOURCE = {"kind": "rate"}
ANOTHER_UID = 65_534


class Bomb:
    """What it is unpickled to makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, int]]:
        return os.open, (str(self.marker), os.O_CREAT | os.O_WRONLY)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "code-was-run"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A state directory with a state, as a run leaves it."""
    path = tmp_path / "state"
    save(path, monitor_of(Settings()))
    return path


def monitor_of(settings: Settings) -> Monitor:
    monitor = new_monitor(Settings())
    monitor.add_channels(["a"], 0)
    monitor.resend = True  # every generator emits at the next tick
    monitor.settings = settings
    return monitor


def save(path: Path, monitor: Monitor, asked: Settings = Settings()) -> None:  # noqa: B008 (frozen)
    directory = StateDirectory(path)
    directory.lock()
    state = SavedState(source=SOURCE, asked=asked, query_id=None, offsets_digest=None, firings_bytes=0, monitor=monitor)
    directory.save(state)
    directory.unlock()


def load(path: Path, asked: Settings = Settings()) -> SavedState | None:  # noqa: B008
    """Load the state and go on with it, as a run does."""
    directory = StateDirectory(path)
    directory.lock()
    try:
        state = directory.load(SOURCE, asked)
        if state is not None:
            state.monitor.add_channels(["new"], 1_000)
            state.monitor.tick(2_000)
        return state
    finally:
        directory.unlock()


def give_away(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it another user's."""
    if os.geteuid() == 0:
        os.chown(path, ANOTHER_UID, -1, follow_symlinks=False)
    else:
        other = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: other)


def test_an_unchanged_state_resumes(directory: Path) -> None:
    assert load(directory) is not None


def test_a_pickled_generator_is_not_run_unless_the_command_names_the_strategy(tmp_path: Path, marker: Path) -> None:
    monitor = monitor_of(Settings())
    monitor.channels[0].generator = CustomGenerator(pickle.dumps(Bomb(marker)))
    save(tmp_path / "state", monitor)
    with refused(UsageError, "generator", tmp_path / "state", "--strategy bounded"):
        load(tmp_path / "state")
    assert not marker.exists()


def test_the_bomb_of_these_tests_goes_off(marker: Path) -> None:
    os.close(pickle.loads(pickle.dumps(Bomb(marker))))
    assert marker.exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"strategy": "custom", "factory": "os:getpid", "lateness_ms": None},
        {"marker": "java_method('java.lang.Runtime', 'getRuntime')"},
        {"emit_every_ms": 1},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_settings_in_force_are_those_of_the_command(tmp_path: Path, changed: dict[str, object]) -> None:
    save(tmp_path / "state", monitor_of(replace(Settings(), **changed)))
    with refused(UsageError, "settings", tmp_path / "state"):
        load(tmp_path / "state")


def test_settings_that_were_changed_while_it_ran_are_kept(tmp_path: Path) -> None:
    now = replace(Settings(), lateness_ms=1, idle_after_ms=None, version=7)
    save(tmp_path / "state", monitor_of(now))
    state = load(tmp_path / "state")
    assert state is not None
    assert state.monitor.settings == now


def test_a_generator_of_another_strategy_is_refused(tmp_path: Path) -> None:
    asked = replace(Settings(), strategy="bounded-legacy")
    save(tmp_path / "state", monitor_of(asked), asked)
    with refused(UsageError, "generator", "bounded-legacy"):
        load(tmp_path / "state", asked)


@pytest.mark.parametrize(
    "asked", [Settings(), replace(Settings(), strategy="bounded-legacy")], ids=["bounded", "legacy"]
)
def test_a_run_that_has_lost_a_channel_resumes(tmp_path: Path, asked: Settings) -> None:
    """A partition or topic was deleted: its channel keeps its number, and a generator that emits nothing."""
    monitor = new_monitor(asked)
    monitor.add_channels(["gone", "stays"], 0)
    monitor.remove_channels(["gone"], 1)
    save(tmp_path / "state", monitor, asked)
    state = load(tmp_path / "state", asked)
    assert state is not None
    assert [channel.left for channel in state.monitor.channels] == ["removed", None, None]


def test_a_lost_channel_hides_no_pickled_generator(tmp_path: Path, marker: Path) -> None:
    monitor = monitor_of(Settings())
    monitor.add_channels(["stays"], 0)
    monitor.remove_channels(["a"], 1)
    monitor.channels[0].generator = CustomGenerator(pickle.dumps(Bomb(marker)))
    save(tmp_path / "state", monitor)
    with refused(UsageError, "generator", tmp_path / "state"):
        load(tmp_path / "state")
    assert not marker.exists()


@pytest.mark.parametrize("name", ["", "state.json", "lock", "checkpoint/commits/0"])
def test_what_is_another_users_is_refused(directory: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if name and not path.exists():
        path.write_text("")
    give_away(path, monkeypatch)
    with refused(UsageError, "another_user", "--state-dir", path if os.geteuid() == 0 else directory):
        load(directory)


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702, 0o770, 0o720])
def test_a_directory_that_others_can_write_is_refused(
    directory: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_is_own_group", lambda gid: False)
    directory.chmod(mode)
    with refused(UsageError, "writable_by_others", f"chmod -R go-w {directory}", f"{mode:04o}"):
        load(directory)


@pytest.mark.parametrize("name", ["state.json", "checkpoint", "checkpoint/offsets/0"])
def test_a_file_that_others_can_reach_and_write_is_refused(directory: Path, name: str) -> None:
    (directory / "checkpoint" / "offsets").mkdir(parents=True)
    (directory / "checkpoint" / "offsets" / "0").write_text("")
    directory.chmod(0o755)
    (directory / name).chmod(0o777)
    with refused(UsageError, "writable_by_others", directory / name):
        StateDirectory(directory).lock()
    directory.chmod(0o700)  # now they cannot reach it
    StateDirectory(directory).lock()


def test_a_link_in_it_is_refused(directory: Path, tmp_path: Path) -> None:
    (directory / "checkpoint").symlink_to(tmp_path)
    with refused(UsageError, "link", directory / "checkpoint"):
        load(directory)


def test_it_is_made_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        StateDirectory(tmp_path / "above" / "state").lock()
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "above" / "state").stat().st_mode) == 0o700


ME, OTHER = "me", "other"


@pytest.mark.parametrize(
    ("group", "members", "users", "is_own"),
    [
        (ME, [], [(ME, 7)], True),  # as useradd makes it
        (ME, [ME], [(ME, 7)], True),
        (ME, [OTHER], [(ME, 7)], False),
        (ME, [], [(ME, 7), (OTHER, 7)], False),  # another one's main group
        ("staff", [], [(ME, 7)], False),
        (ME, [], [(ME, 8)], False),
    ],
)
def test_the_group_of_a_user_alone_may_write(
    directory: Path, monkeypatch: pytest.MonkeyPatch, group: str, members: list[str], users: list[tuple[str, int]],
    is_own: bool,
) -> None:  # fmt: skip
    me = os.geteuid()
    known = [SimpleNamespace(pw_name=name, pw_gid=gid, pw_uid=me if name == ME else me + 1) for name, gid in users]
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: known[0])
    monkeypatch.setattr(pwd, "getpwall", lambda: known)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: SimpleNamespace(gr_name=group, gr_mem=members))
    assert ownership._is_own_group.__wrapped__(7) == is_own  # pyright: ignore[reportFunctionMemberAccess]


def test_an_access_list_makes_a_group_of_ones_own_that_of_others(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ownership, "_is_own_group", lambda gid: True)
    directory.chmod(0o770)
    assert load(directory) is not None
    monkeypatch.setattr(os, "getxattr", lambda path, name: b"\2\0\0\0", raising=False)
    with refused(UsageError, "writable_by_others", directory):
        load(directory)


def test_the_command_refuses_it_before_it_reads_anything(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    directory.chmod(0o777)
    code, out, err = run(capsys, "run", "rate", "--once", "--state-dir", directory)
    assert (code, out) == (2, "")
    [line] = err.splitlines()
    assert f"chmod -R go-w {directory}" in line
