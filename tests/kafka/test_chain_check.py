"""`check --chain`, alerts and recordings of a chain of topics and groups on a real broker."""

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.snapshot import Chain
from wmtop.tui.replay.app import ReplayApp

from ..tui.cli.commands import run
from ..tui.cli.test_chain_target import shown_text
from .records import CreateTopic, Produce, Record
from .test_chain import MINUTE, commit, own_run_directory

__all__ = ["own_run_directory"]
Check = Callable[..., tuple[int, str, str]]


@pytest.fixture
def behind_90m(broker: LocalBroker, create_topic: CreateTopic, produce: Produce, tmp_path: Path) -> Path:
    """The configuration of a chain whose group `enrich` is 90 minutes behind its topic, and writes what it reads."""
    orders, out = create_topic(2), create_topic(1)
    now = time.time_ns() // 1_000_000
    read = [now - minutes * MINUTE for minutes in range(120, 0, -1)]
    produce(orders, [Record(partition=p, timestamp_ms=time_ms) for time_ms in read for p in (0, 1)])
    produce(out, [Record(timestamp_ms=time_ms) for time_ms in read if time_ms <= now - 90 * MINUTE])
    commit(broker, f"enrich-{orders}", orders, {0: 120, 1: 31})
    place = f"kafka://{broker.bootstrap}"
    config = tmp_path / "chain.toml"
    config.write_text(
        f'[targets.orders]\nattach = "{place}/{orders}"\ntime = "timestamp"\n'
        f'[targets.enrich]\nattach = "{place}/{orders}"\ngroup = "enrich-{orders}"\nwrites = ["{out}"]\n'
        f'[targets.out]\nattach = "{place}/{out}"\ntime = "timestamp"\n'
    )
    return config


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    monkeypatch.setenv("WMTOP_CONFIG", "/nowhere")  # restored afterwards: --chain CONFIG sets it

    def check_chain(config: Path, *options: str) -> tuple[int, str, str]:
        return run(capsys, "check", "--chain", str(config), *options)

    return check_chain


def test_a_condition_on_what_the_chain_loses_decides(behind_90m: Path, check: Check) -> None:
    code, out, err = check(behind_90m, "--fail-if", "chain.behind > 30m", "--json", "--for", "1m")
    assert (code, err) == (1, "")
    found = json.loads(out)
    assert found["met"].startswith("chain.behind > 30m (chain.behind is 1h")
    assert found["facts"]["chain.behind"] in range(89 * MINUTE - 2, 89 * MINUTE + 3)
    assert found["reason"].startswith("behind 1h29m: 1h29m are lost in enrich (held back by ")
    assert check(behind_90m, "--fail-if", "chain.behind > 3h", "--for", "10s")[0] == 0


def test_a_cluster_under_another_address_is_the_same_one(behind_90m: Path, check: Check, broker: LocalBroker) -> None:
    """The broker says who it is; the text of its address does not matter."""
    address = broker.bootstrap
    host, _, port = address.rpartition(":")
    other = f"{'127.0.0.1' if host == 'localhost' else 'localhost'}:{port}"
    before, enrich = behind_90m.read_text().split("[targets.enrich]")
    behind_90m.write_text(f"{before}[targets.enrich]{enrich.replace(address, other, 1)}")
    code, out, _ = check(behind_90m, "--fail-if", "chain.behind > 30m", "--json", "--for", "1m")
    assert code == 1
    assert "lost in enrich (held back by" in json.loads(out)["reason"]


def test_what_is_lost_behind_a_hop_that_is_not_known_is_at_least_that_much(behind_90m: Path, check: Check) -> None:
    """A lower bound meets a condition that it exceeds, and says nothing about a higher one."""
    text = behind_90m.read_text()
    behind_90m.write_text(text[: text.index("[targets.out]")])  # nothing watches what enrich writes
    assert check(behind_90m, "--fail-if", "chain.behind > 30m", "--for", "20s")[0] == 1
    code, out, _ = check(behind_90m, "--fail-if", "chain.behind > 3h", "--for", "4s")
    assert code == 3
    assert "chain.behind, at least 1h29m" in out


def test_a_dead_target_of_the_chain_is_not_fine(behind_90m: Path, check: Check) -> None:
    with behind_90m.open("a") as file:
        file.write('[targets.dead]\nattach = "flink://127.0.0.1:1/gone"\nreads = ["nothing"]\n')
    code, out, _ = check(behind_90m, "--fail-if", "chain.behind > 3h", "--for", "4s", "--json")
    assert (code, json.loads(out)["at_least"].count("chain.behind")) == (3, 1)


def test_a_chain_takes_one_configuration_and_no_other_targets(behind_90m: Path, check: Check) -> None:
    for more in (["orders"], ["--all"]):
        code, _, err = check(behind_90m, *more)
        assert (code, err.count("\n")) == (2, 1)
        assert "--chain" in err


def test_a_recording_has_what_each_look_at_the_chain_saw(
    behind_90m: Path, broker: LocalBroker, produce: Produce, capsys: pytest.CaptureFixture[str]
) -> None:
    """The group catches up while the chain is followed; `check` and the player read both states from the recording."""
    text = behind_90m.read_text()
    topic, group, out = (
        text.split(mark)[1].split('"')[0] for mark in (f"{broker.bootstrap}/", 'group = "', 'writes = ["')
    )
    recording = behind_90m.with_name("chain.rec")
    command = [sys.executable, "-m", "wmtop.tui.cli", "chain", str(behind_90m), "--record", str(recording)]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as following:
        try:
            _until(lambda: _behind(recording, "enrich")[-1:] == [89])
            commit(broker, group, topic, {0: 120, 1: 120})
            produce(out, [Record(timestamp_ms=time.time_ns() // 1_000_000 - 10 * MINUTE)])
            _until(lambda: all(0 <= _behind(recording, name)[-1] < 80 for name in ("enrich", out)))
        finally:
            following.send_signal(signal.SIGINT)
        assert following.wait(30) in (0, 130), following.stderr.read() if following.stderr else ""
    seen = _behind(recording, "enrich")
    with RecordingReader(recording) as reader:
        then = reader.points[seen.index(89)]
        assert not reader.truncated
    assert then is not None
    for moment, code in ((["--at", str(then.now_ms)], 1), ([], 0)):
        found = run(capsys, "check", str(recording), "--fail-if", "chain.behind > 80m", *moment)
        assert found[0] == code, found
    asyncio.run(_scrubbed(recording, seen.index(89)))


def _until(seen: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not seen():
        assert time.monotonic() < until
        time.sleep(0.2)


def _behind(recording: Path, name: str) -> list[int]:
    """How many minutes a hop loses in each snapshot; -1: not known."""
    if not recording.exists() or not recording.stat().st_size:
        return []
    with RecordingReader(recording) as reader:
        chains = [one.target for one in reader if isinstance(one.target, Chain)]
    losses = [next((hop.loss_ms for hop in chain.hops if hop.name == name), None) for chain in chains]
    return [-1 if loss_ms is None else loss_ms // MINUTE for loss_ms in losses]


async def _scrubbed(recording: Path, number: int) -> None:
    """The player shows the chain of the snapshot it is at."""
    with RecordingReader(recording) as reader:
        app = ReplayApp(reader, number=number, playing=False)
        async with app.run_test(size=(120, 36)) as pilot:
            await pilot.pause(0.5)
            assert "lost in enrich" in shown_text(app)
            await pilot.press("N", *["}"] * 20)
            await pilot.pause(0.8)
            assert "lost in enrich" not in shown_text(app)
