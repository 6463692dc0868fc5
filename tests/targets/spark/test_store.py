"""Checkpoints and event logs in a bucket: the facts of local ones, by few requests, with every fault in one line."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from msgspec.structs import replace
from wmtop.engine.snapshot import SourceView
from wmtop.engine.system import remote_files
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.spark import open_windows, store
from wmtop.engine.targets.spark import watch as query_watch
from wmtop.engine.targets.spark.checkpoint import CheckpointFacts, CheckpointTap
from wmtop.engine.targets.spark.event_log import EventLogTap
from wmtop.engine.targets.spark.files import AnyPath, RemoteError
from wmtop.engine.targets.spark.open_windows import OpenWindows, OpenWindowsTap
from wmtop.engine.targets.spark.store import EventLogCopy, StoredCheckpoint, open_remote
from wmtop.engine.targets.spark.watch import QueryWatch

from ...tui.cli.commands import run
from .jobs import Seen
from .s3 import ACCESS_DENIED, BUCKET, S3, UNAVAILABLE, s3_server
from .written import Written

KEY = "checkpoints/orders"
URI = f"s3a://{BUCKET}/{KEY}"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    with s3_server() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setattr(remote_files, "ATTEMPTS", 1)
        yield server


def upload(s3: S3, written: Written, batch: int, *, committed: bool = True) -> None:
    """What the query writes in a batch: state and commit come after the offsets."""
    s3.put(written.path / "offsets" / str(batch), f"{KEY}/offsets/{batch}")
    if not committed:
        return
    for path in sorted((written.path / "state").rglob("*")):
        if path.is_file() and path.name in (f"{batch + 1}.delta", f"{batch + 1}.snapshot"):
            s3.put(path, f"{KEY}/{path.relative_to(written.path).as_posix()}")
    s3.put(written.path / "commits" / str(batch), f"{KEY}/commits/{batch}")


def begin(s3: S3, written: Written, last: int) -> None:
    """The checkpoint as it was when batch `last` had been committed."""
    s3.put(written.path / "metadata", f"{KEY}/metadata")
    for directory in (written.path / "state").rglob("_metadata"):
        s3.put(directory, f"{KEY}/{directory.relative_to(written.path).as_posix()}")
    for batch in range(last + 1):
        upload(s3, written, batch)


def facts_of(path: AnyPath) -> CheckpointFacts:
    """Without the times of files, which an upload changes."""
    facts = CheckpointTap(path).poll()
    return replace(facts, history=tuple(replace(mark, end_ms=None) for mark in facts.history))


def stored(uri: str = URI) -> StoredCheckpoint:
    """The checkpoint at a URI, read for the first time."""
    remote = open_remote(uri)
    assert isinstance(remote, StoredCheckpoint)
    return remote


def windows_of(tap: OpenWindowsTap, path: AnyPath) -> tuple[OpenWindows, ...]:
    return tap.poll(CheckpointTap(path).poll())


@pytest.mark.parametrize("kind", ["counts", "several", "chained", "sessions", "join", "rocksdb", "stateless"])
def test_it_is_followed_as_a_local_one_is(s3: S3, written: dict[str, Written], kind: str, tmp_path: Path) -> None:
    begin(s3, written[kind], 0)
    remote = stored()
    there = OpenWindowsTap(remote.path)
    for batch in range(written[kind].last + 1):
        local = written[kind].copy(tmp_path / str(batch), last=batch)
        upload(s3, written[kind], batch, committed=False)
        remote.refresh()
        if batch:
            assert CheckpointTap(remote.path).poll().in_flight
        upload(s3, written[kind], batch)
        remote.refresh()
        assert facts_of(remote.path) == facts_of(local.path)
        assert windows_of(there, remote.path) == windows_of(OpenWindowsTap(local.path), local.path)


def test_a_look_at_an_idle_query_is_one_request_and_a_batch_a_few(s3: S3, written: dict[str, Written]) -> None:
    begin(s3, written["plain"], 0)
    remote = stored()
    tap = CheckpointTap(remote.path)
    tap.poll()
    s3.asked.clear()
    for _ in range(5):
        remote.refresh()
        tap.poll()
    assert s3.asked == [f"HEAD /{BUCKET}/{KEY}/offsets/1"] * 5
    s3.asked.clear()
    upload(s3, written["plain"], 1)
    remote.refresh()
    tap.poll()
    assert len(s3.asked) == 5  # two files, each HEAD and GET, and the next batch, which is not there
    assert not any("list-type" in path for path in s3.asked)


def test_the_directories_are_listed_at_the_start_and_once_a_minute(s3: S3, written: dict[str, Written]) -> None:
    begin(s3, written["plain"], 0)
    now = [100.0]
    remote = StoredCheckpoint(stored().store, clock=lambda: now[0])

    def listings() -> int:
        s3.asked.clear()
        remote.refresh()
        return sum("list-type" in path for path in s3.asked)

    at_the_start = listings()
    assert at_the_start > 0
    now[0] += 59
    assert listings() == 0
    now[0] += 1
    assert listings() == at_the_start


def test_a_listing_that_lags_hides_nothing_and_forgets_nothing(
    s3: S3, written: dict[str, Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LIST_EVERY_S", 0.0)
    begin(s3, written["counts"], 1)
    remote = stored()
    s3.lists_late = True
    for batch in (2, 3):
        upload(s3, written["counts"], batch)
        remote.refresh()
        facts = facts_of(remote.path)
        assert (facts.batch, facts.committed) == (batch, batch)


def test_another_query_at_the_same_place_is_noticed(
    s3: S3, written: dict[str, Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "LIST_EVERY_S", 0.0)
    begin(s3, written["counts"], written["counts"].last)
    remote = stored()
    s3.delete(KEY)
    begin(s3, written["plain"], 0)
    remote.refresh()
    facts = facts_of(remote.path)
    assert facts.batch == 0
    assert facts.query_id == facts_of(written["plain"].path).query_id


@pytest.mark.parametrize("fault", [ACCESS_DENIED, UNAVAILABLE, "slow", "gone"])
def test_a_store_that_fails_makes_its_query_stale_with_the_reason_and_it_recovers(
    s3: S3, written: dict[str, Written], fault: tuple[int, bytes] | str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(remote_files, "REQUEST_S", 1)
    monkeypatch.setattr(query_watch, "OUT_OF_REACH_S", 0.0)
    fresh = written["counts"].aged(tmp_path / "copy", -10 * 365 * 86_400_000)  # not stale by its age
    begin(s3, fresh, 0)
    remote = stored()
    watch = QueryWatch(SourceView(kind="checkpoint", description=URI), checkpoint=remote.path, remote=remote)
    watch.open()
    good = watch.picture("orders", watch.poll(), 0).snapshot
    assert good.state == "live"
    if isinstance(fault, tuple):
        s3.fault = fault
    elif fault == "slow":
        s3.delay_s = 3.0
    else:
        s3.fault = (500, b"<Error><Code>InternalError</Code></Error>")
    lost = watch.picture("orders", watch.poll(), 0).snapshot
    assert (lost.state, lost.batch) == ("stale", 0)
    [said] = [note.args["why"] for note in lost.notes if note.code == "unreadable"]
    assert str(said).startswith(f"{URI}: ")
    assert "\n" not in str(said)
    s3.fault, s3.delay_s = None, 0.0
    upload(s3, fresh, 1)
    back = watch.picture("orders", watch.poll(), 0).snapshot
    assert (back.state, back.batch) == ("live", 1)
    watch.close()


def test_what_cannot_be_fetched_is_one_line_and_exit_code_2(
    s3: S3, written: dict[str, Written], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(s3, written["plain"], 0)

    def said(target: str, *more: str) -> str:
        code, out, err = run(capsys, "check", target, *more)
        assert (code, out, err.count("\n")) == (2, "", 1), (code, out, err)
        return err

    assert "no such bucket" in said("s3://elsewhere/orders")
    assert "nothing at" in said(f"s3://{BUCKET}/nowhere")
    assert f"did you mean s3://{BUCKET}/{KEY}" in said(f"s3://{BUCKET}/checkpoints")
    assert "'regio'" in said(f"{URI}?regio=eu")
    assert "quux" in said("quux://host/orders")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    assert "wmtop[fsspec]" in said("quux://host/orders")
    assert "--state-reader spark" in run(capsys, "attach", URI, "--once", "--state-reader", "spark")[2]
    s3.fault = ACCESS_DENIED
    assert "access denied" in said(URI)
    s3.fault = None
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert "cannot be reached" in said(URI)


def test_attach_and_check_show_the_query_by_its_uri(
    s3: S3, written: dict[str, Written], capsys: pytest.CaptureFixture[str]
) -> None:
    begin(s3, written["counts"], written["counts"].last)
    command = [sys.executable, "-m", "wmtop.tui.cli", "attach", f"{URI}?endpoint_override={s3.endpoint}", "--once"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"checkpoint {URI}\n" in done.stdout
    assert "endpoint_override" not in done.stdout
    assert run(capsys, "check", URI, "--for", "1s", "--fail-if", "state == stale")[0] == 1


def test_too_much_state_is_left_out_with_the_reason(
    s3: S3, written: dict[str, Written], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_windows, "MAX_STORED_PARTITIONS", 1)
    begin(s3, written["counts"], 1)
    remote = stored()
    watch = QueryWatch(SourceView(kind="checkpoint", description=URI), checkpoint=remote.path, remote=remote)
    watch.open()
    windows = watch.picture("orders", watch.poll(), 0).snapshot.windows
    assert (windows.open_count, windows.unknown) == (None, "remote_state")
    assert not any(path.endswith(".delta") for path in s3.asked)
    watch.close()


class Unreachable:
    """A reader of windows whose store does not answer."""

    def poll(self, facts: CheckpointFacts) -> tuple[OpenWindows, ...]:
        raise RemoteError("s3://lake/orders: no answer")

    def close(self) -> None:
        pass


def test_state_that_the_store_refuses_is_not_taken_for_none(written: dict[str, Written]) -> None:
    source = SourceView(kind="checkpoint", description=URI)
    watch = QueryWatch(source, checkpoint=written["counts"].path, windows=lambda path: Unreachable())
    watch.open()
    for _ in range(2):
        windows = watch.picture("orders", watch.poll(), 0).snapshot.windows
        assert (windows.open_count, windows.unknown) == (None, "unreadable")
    watch.close()


@pytest.mark.parametrize("kind", ["rolled", "plain"])
def test_an_event_log_is_followed(s3: S3, seen: dict[str, Seen], kind: str, tmp_path: Path) -> None:
    log = seen[kind].job.log
    whole = EventLogTap(log).poll_all()
    growing = tmp_path / log.name
    shutil.copytree(log, growing) if log.is_dir() else shutil.copy(log, growing)
    last = max(growing.iterdir(), key=lambda path: path.stat().st_size) if growing.is_dir() else growing
    content = last.read_bytes()
    last.write_bytes(content[: len(content) // 2])
    s3.put(growing, f"logs/{log.name}")
    remote = open_remote(f"s3://{BUCKET}/logs/{log.name}")
    assert isinstance(remote, EventLogCopy)
    tap = EventLogTap(remote.local)
    half = tap.poll_all()
    last.write_bytes(content)
    s3.put(last, f"logs/{log.name}/{last.name}" if growing.is_dir() else f"logs/{log.name}")
    remote.refresh()
    now = tap.poll_all()
    assert half.queries != whole.queries
    assert now.queries == whole.queries
    tap.close()
    remote.close()
    assert not remote.local.exists()


@pytest.mark.parametrize("secret", ["s3://key:secret@lake/orders"])
def test_credentials_in_a_uri_are_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(UsageError) as error:
        open_remote(secret)
    assert "secret@" not in str(error.value)


def test_a_store_that_arrow_does_not_know_is_read_through_fsspec(written: dict[str, Written]) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").put(str(written["counts"].path), "/lake/orders", recursive=True)
    remote = stored("memory://lake/orders")
    assert facts_of(remote.path) == facts_of(written["counts"].path)


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Unable to load libhdfs\ndlopen(libhdfs.so) failed", "install Hadoop"),
        ("Prior attempt to load libhdfs failed", "install Hadoop"),
        ("N5Azure: Failed to get token from DefaultAzureCredential.", "AZURE_STORAGE_KEY"),
        ("UNAVAILABLE: Could not create a OAuth2 access token to authenticate", "GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_what_a_store_needs_is_one_line(
    said: str, shown: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(uri: str) -> None:
        raise OSError(said)

    monkeypatch.setattr(remote_files, "fs", SimpleNamespace(FileSystem=SimpleNamespace(from_uri=refuse)))
    code, _, err = run(capsys, "check", "hdfs://nn/orders")
    assert (code, err.count("\n"), shown in err) == (2, 1, True), err


def test_a_directory_that_google_does_not_have_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(selector: object) -> None:
        raise OSError("No such file or directory 'lake/orders/state'")  # without a number

    google = SimpleNamespace(get_file_info=find)
    monkeypatch.setattr(store, "file_system", lambda uri: (google, "lake/orders"))
    assert store.Store("gs://lake/orders").entries("state") is None


@pytest.mark.parametrize("status", [503, 500])
def test_an_error_without_a_body_is_named_by_its_status(s3: S3, status: int) -> None:
    s3.fault = (status, b"")
    with pytest.raises(store.RemoteError) as failed:
        store.Store(URI).written_ms("offsets/1")
    assert str(status) in str(failed.value)
