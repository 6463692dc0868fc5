"""The start of an engine, as its viewers see it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from wmtop.engine.feed import host as hosts
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.client import first_snapshot
from wmtop.engine.feed.host import Host
from wmtop.engine.snapshot import FlinkJob, Note, Snapshot
from wmtop.engine.watermarks.settings import Settings

from .hosts import host_alone


@pytest.fixture
def host(run_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(hosts, "_PULSE_S", 0.01)
    with host_alone(monkeypatch) as made:
        yield made


def seen(state: str) -> Snapshot:
    """The first snapshot with that state that a viewer gets."""
    while (snapshot := first_snapshot(run_directory.socket_path("flights"))).state != state:
        pass
    return snapshot


def test_a_step_without_progress_makes_the_start_stale_until_there_is_some(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hosts, "STEP_STALE_AFTER_S", 0.0)
    host.begin(stop_on_eof=False, on_alert=None)
    with host.step("starting Spark"):
        stuck = seen("stale")
        assert [(note.code, note.args["step"]) for note in stuck.notes] == [("start_stuck", "starting Spark")]
        assert [step.name for step in stuck.steps] == ["starting Spark"]
    host.open_step("waiting for the first batch")  # this may take as long as it likes
    assert seen("starting").notes == []


@pytest.mark.usefixtures("run_directory")
def test_what_is_not_known_yet_has_the_kind_of_what_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a start nor a failure makes an attached job an own run, which `wmtop run` would start again."""
    published: list[Snapshot] = []
    job = FlinkJob("", "orders", "UNKNOWN", None, [])
    with host_alone(monkeypatch, lambda snapshot, _: published.append(snapshot), empty=job) as host:
        with host.step("asking the JobManager"):
            assert seen("starting").target == job
        host.fail(RuntimeError("the JobManager is gone"))
    assert [(one.state, one.target) for one in published] == [("failed", job)]


def test_a_step_within_its_bound_is_starting(host: Host) -> None:
    host.begin(stop_on_eof=False, on_alert=None)
    with host.step("starting Spark"):
        assert seen("starting").notes == []


def test_nothing_of_the_start_is_published_after_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "STEP_STALE_AFTER_S", 0.0)
    with host.step("starting Spark"):
        host.started()
        host.publish(Snapshot(name="flights", state="live", settings=Settings(), batch=1))
        host.show_start(Note(0, "jvm_silent"))
        assert seen("live").batch == 1


def test_the_last_snapshot_of_an_engine_that_stops_is_not_a_moving_one(host: Host) -> None:
    """Closing a recording may take long; what reads it sees the run as it was."""
    host.started()
    host.publish(Snapshot(name="flights", state="live", settings=Settings(), batch=7), last=True)
    last = seen("stale")
    assert (last.batch, last.verdict.verdict) == (7, "unknown")
    assert [note.code for note in last.notes] == ["engine_stopping"]
    assert last.condition.stopping


def test_a_single_look_at_a_target_that_is_still_starting_is_printed(
    run_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed: list[tuple[str, bool]] = []
    with host_alone(monkeypatch, lambda snapshot, last: printed.append((snapshot.state, last))) as host:
        for last in (False, True):
            host.publish(Snapshot(name="flights", state="starting", settings=Settings()), last=last)
    assert printed == [("starting", True)]
