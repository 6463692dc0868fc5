"""The state directory: what does not fit, is damaged or cannot be written is one line that says what to do."""

import json
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from wmtop.engine.run.durable_state import STATE_VERSION, FiringsFile, SavedState, StateDirectory
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.system.files import own_outputs
from wmtop.engine.watermarks.monitor import new_monitor
from wmtop.engine.watermarks.settings import Settings
from wmtop.engine.watermarks.window_operator import Firing

SOURCE = {"kind": "replay", "files": ["a.parquet"]}


def saved(channels: int = 0) -> SavedState:
    monitor = new_monitor(Settings())
    monitor.add_channels([f"channel {number}" for number in range(channels)], 0)
    return SavedState(
        source=SOURCE, asked=Settings(), query_id=None, offsets_digest=None, firings_bytes=0, monitor=monitor
    )


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StateDirectory]:
    state = StateDirectory(tmp_path / "state")
    state.lock()
    yield state
    state.unlock()


def unsealed(content: bytes) -> bytes:
    """A state as it was before states had a digest: only its content says whether it is whole."""
    sealed, seal, _ = content.rpartition(b',"sha256":')
    assert seal
    return sealed + b"}"


def refusal(state: StateDirectory) -> str:
    """The line with which the state is refused: a usage error (exit code 2) that names the directory."""
    with pytest.raises(UsageError) as caught:
        state.load(SOURCE, Settings())
    assert "\n" not in str(caught.value)
    assert str(state.path) in str(caught.value)
    return str(caught.value)


def test_what_was_saved_is_loaded(state: StateDirectory) -> None:
    state.save(saved(3))
    loaded = state.load(SOURCE, Settings())
    assert loaded is not None
    assert [channel.name for channel in loaded.monitor.channels] == ["channel 0", "channel 1", "channel 2"]


def test_a_state_without_a_digest_is_that_of_an_older_wmtop(state: StateDirectory) -> None:
    state.save(saved(3))
    file = state.path / "state.json"
    file.write_bytes(unsealed(file.read_bytes()))
    loaded = state.load(SOURCE, Settings())
    assert loaded is not None
    assert len(loaded.monitor.channels) == 3


def test_a_state_with_another_digit_than_was_saved_is_refused(state: StateDirectory) -> None:
    state.save(saved(3))
    file = state.path / "state.json"
    other = file.read_bytes().replace(b"channel 1", b"channel 7")
    file.write_bytes(other)
    assert "state.json cannot be read (it has changed since it was saved)" in refusal(state)


@pytest.mark.parametrize("version", [STATE_VERSION - 1, STATE_VERSION + 1, 10**30])
def test_a_state_of_another_version_is_refused(state: StateDirectory, version: int) -> None:
    """Whatever else it holds: nothing of it is read."""
    (state.path / "state.json").write_text(json.dumps({"version": version, "new": []}))
    said = refusal(state)
    assert f"version {version}" in said
    assert "another directory" in said


OPENED = b'{"version": %d, "source": ' % STATE_VERSION
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "not UTF-8": lambda content: content.replace(b"replay", b"\xff\xfe\xff\xfe\xff\xfe"),
    "nested": lambda content: OPENED + b"[" * 100_000,
    "nested, closed": lambda content: OPENED + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "negative length": lambda content: content.replace(b'"firings_bytes":0', b'"firings_bytes":-1'),
    "no version": lambda content: b"{}",
    "a list": lambda content: b"[]",
    "another type": lambda content: content.replace(b'"firings_bytes":0', b'"firings_bytes":"0"'),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_state_is_refused_with_what_to_do(state: StateDirectory, damage: str) -> None:
    state.save(saved())
    file = state.path / "state.json"
    whole = unsealed(file.read_bytes())
    damaged = DAMAGE[damage](whole)
    assert damaged != whole
    file.write_bytes(damaged)
    said = refusal(state)
    assert "state.json" in said
    assert "another directory" in said


@contextmanager
def no_room(limit: int) -> Iterator[None]:
    """No file of this process may grow beyond `limit` bytes: the kernel refuses as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_names_the_file_and_leaves_the_state_before(state: StateDirectory) -> None:
    state.save(saved(1))
    before = (state.path / "state.json").read_bytes()
    with no_room(len(before) + 100), pytest.raises(RunError) as caught:
        state.save(saved(1_000))
    assert str(state.path / "state.json") in str(caught.value)
    assert caught.value.code == "unwritable"
    assert (state.path / "state.json").read_bytes() == before
    assert sorted(path.name for path in state.path.iterdir()) == ["lock", "state.json"]  # nothing takes up the room
    state.save(saved(2))  # once there is room again
    loaded = state.load(SOURCE, Settings())
    assert loaded is not None
    assert len(loaded.monitor.channels) == 2


def test_a_full_disk_does_not_lose_which_files_the_run_wrote(state: StateDirectory, tmp_path: Path) -> None:
    state.note_outputs([tmp_path / "firings.ndjson"])
    with no_room(10), pytest.raises(RunError) as caught:
        state.note_outputs([tmp_path / "a.rec"])
    assert str(state.path / "outputs.json") in str(caught.value)
    assert own_outputs(state.path) == [tmp_path / "firings.ndjson"]


def test_a_full_disk_names_the_lock_file(state: StateDirectory) -> None:
    with no_room(0), pytest.raises(RunError) as caught:
        state.note_jvm(12345)
    assert str(state.path / "lock") in str(caught.value)


def firing(end_ms: int) -> Firing:
    return Firing(
        kind="fire", batch=1, channel=None, start_ms=0, end_ms=end_ms, records=1, firings=1, watermark_ms=0, ended=False
    )


def test_a_full_disk_names_the_firings_file(tmp_path: Path) -> None:
    path = tmp_path / "firings.ndjson"
    firings = [firing(number) for number in range(1_000)]
    file = FiringsFile(path, None)
    file.append(firings[:10])
    known = file.size
    with no_room(known + 100), pytest.raises(RunError) as caught:
        file.append(firings)
    assert str(path) in str(caught.value)
    file.close()
    again = FiringsFile(path, known, "continue")
    again.append(firings[10:20])
    again.close()
    assert [json.loads(line)["end_ms"] for line in path.read_text().splitlines()] == list(range(20))


def test_nothing_is_saved_once_the_directory_is_unlocked(state: StateDirectory) -> None:
    """A change that has waited for its turn must not write into what another engine may own by now."""
    state.save(saved(1))
    before = (state.path / "state.json").read_bytes()
    state.unlock()
    other = StateDirectory(state.path)
    other.lock()
    with pytest.raises(RunError):
        state.save(saved(2))
    assert (state.path / "state.json").read_bytes() == before
    other.unlock()


def test_to_unlock_waits_for_what_is_being_saved(state: StateDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    saving, go_on = threading.Event(), threading.Event()
    done: list[str] = []

    def slow(path: Path, content: bytes, *, sync: bool) -> None:
        saving.set()
        assert go_on.wait(30)
        done.append("saved")

    monkeypatch.setattr("wmtop.engine.run.durable_state.replace_file", slow)
    saver = threading.Thread(target=state.save, args=(saved(),))
    saver.start()
    assert saving.wait(30)
    unlocker = threading.Thread(target=lambda: (state.unlock(), done.append("unlocked")))
    unlocker.start()
    unlocker.join(0.1)
    assert done == []
    go_on.set()
    saver.join()
    unlocker.join()
    assert done == ["saved", "unlocked"]


OFFSETS = 'v1\n{"batchTimestampMs":1}\n{"t":{"0":%d}}'


def with_offsets(state: StateDirectory, read_to: list[int]) -> None:
    """A checkpoint with planned batches, of which all but the last were applied and committed."""
    for name in ("offsets", "commits"):
        (state.checkpoint / name).mkdir(parents=True)
    for batch, offset in enumerate(read_to):
        (state.checkpoint / f"offsets/{batch}").write_text(OFFSETS % offset)
        (state.checkpoint / f"offsets/.{batch}.crc").write_text("old")
        if batch < len(read_to) - 1:
            (state.checkpoint / f"commits/{batch}").write_text("v1\n{}")


def applied(state: StateDirectory, batch: int, digest: str | None) -> SavedState:
    at_batch = saved()
    at_batch.monitor.batch, at_batch.offsets_digest = batch, digest
    return at_batch


@pytest.mark.parametrize("crashed", ["never", "before the state was saved", "before the offsets were written"])
def test_a_run_continues_at_other_offsets_or_at_the_old_ones(state: StateDirectory, crashed: str) -> None:
    with_offsets(state, [10, 20, 30])
    state.save(applied(state, 1, state.offsets_digest(1)))
    digest = state.plan_rewind(1, lambda line: line.replace("20", "15"))
    if crashed != "before the state was saved":
        state.save(applied(state, 1, digest))
    if crashed == "never":
        state.finish_rewind(digest)
    loaded = state.load(SOURCE, Settings())  # refused if state and checkpoint do not agree
    assert loaded is not None
    is_old = crashed == "before the state was saved"
    assert state.source_offsets(1) == ['{"t":{"0":20}}' if is_old else '{"t":{"0":15}}']
    assert (state.checkpoint / "offsets/2").exists() is is_old
    assert (state.checkpoint / "offsets/.1.crc").exists() is is_old
    assert not (state.path / "rewind.json").exists()
    assert state.load(SOURCE, Settings()) is not None


def test_planned_batches_are_dropped_and_applied_ones_stay(state: StateDirectory) -> None:
    with_offsets(state, [10, 20, 30])
    state.drop_planned(1)
    assert {file.name for file in (state.checkpoint / "offsets").iterdir()} == {"0", ".0.crc", "1", ".1.crc"}
    state.drop_planned(None)
    assert list((state.checkpoint / "offsets").iterdir()) == []


def test_a_damaged_rewind_is_refused_in_one_line(state: StateDirectory) -> None:
    with_offsets(state, [10, 20])
    state.save(applied(state, 0, state.offsets_digest(0)))
    (state.path / "rewind.json").write_text("{")
    assert "rewind.json" in refusal(state)
