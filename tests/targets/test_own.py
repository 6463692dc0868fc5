"""A running engine as a target: followed until its end, a time limit, a stop from another thread, or ctrl+c."""

import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from msgspec.structs import replace
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.host import Host
from wmtop.engine.feed.messages import Header
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.targets.own import RunningEngine, running_engine
from wmtop.engine.targets.target import Pace

from ..doctor.streams import Stream, traffic
from ..feed.hosts import host_alone

HEALTHY = replace(Stream().run(120, traffic("abcd")).published[-1], name="flights")


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    with tempfile.TemporaryDirectory(prefix="wm", dir="/tmp") as directory:
        monkeypatch.setenv(run_directory.RUN_DIR_VARIABLE, directory)
        with host_alone(monkeypatch) as host:
            host.started()
            host.publish(HEALTHY)
            yield host


@pytest.fixture
def engine(host: Host) -> RunningEngine:
    engine = running_engine("flights")
    assert engine is not None
    return engine


def test_an_engine_is_followed_from_its_header_to_the_time_limit(engine: RunningEngine) -> None:
    pace = Pace(for_s=1.0)
    with closing(engine.follow("x", pace)) as messages:
        assert isinstance(next(messages), Header)
        assert isinstance(next(messages), Snapshot)
        began = time.monotonic()
        assert list(messages) == []
    assert pace.is_over
    assert time.monotonic() - began < 10


def test_a_stop_from_another_thread_ends_the_following(engine: RunningEngine) -> None:
    pace = Pace()
    seen: list[object] = []

    def follow() -> None:
        with closing(engine.follow("x", pace)) as messages:
            seen.extend(messages)

    thread = threading.Thread(target=follow)
    thread.start()
    time.sleep(0.2)
    pace.stop()
    thread.join(10)
    assert not thread.is_alive()
    assert next(engine.follow("x", pace), None) is None, "it was stopped before"


def test_a_reader_may_leave_in_the_middle(engine: RunningEngine) -> None:
    with closing(engine.follow("x", Pace())) as messages:
        next(messages)


def test_ctrl_c_ends_a_stream_of_json_without_a_trace(host: Host) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "wmtop.tui.cli", "attach", "flights", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert '"kind":"snapshot"' in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "")
