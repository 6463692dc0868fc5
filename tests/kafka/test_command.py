"""`wmtop run kafka` as a user gives it: both readers show the same, a kill loses nothing, bad input is one line."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.cluster import Cluster
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.tui import cli

from ..conftest import QUICK_OPTIONS
from .records import FULL

WAITS_S = 6
"""Less than an address may take to answer, and more than a busy machine needs."""


@pytest.fixture(scope="module", autouse=True)
def own_run_directory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_directory.RUN_DIR_VARIABLE, f"/tmp/wmtop-test-{os.getpid()}")
        yield


def command(broker: LocalBroker, *more: str, time: tuple[str, ...] = ("--time", "ts")) -> list[str]:
    return [
        *(sys.executable, "-m", "wmtop.tui.cli", "run", "kafka", broker.bootstrap, *more, *QUICK_OPTIONS),
        *(*time, "--lateness", "1m", "--window", "5m", "--json"),
    ]


def once(broker: LocalBroker, *more: str, time: tuple[str, ...] = ("--time", "ts")) -> dict[str, Any]:
    done = subprocess.run(command(broker, "--once", *more, time=time), capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    [line] = done.stdout.splitlines()
    return json.loads(line)


def facts(snapshot: dict[str, Any]) -> dict[str, Any]:
    """What does not depend on the clock or on how records are grouped in batches."""
    channels = [{n: c[n] for n in ("channel", "max_event_ms", "records", "malformed")} for c in snapshot["channels"]]
    totals = {name: snapshot["totals"][name] for name in ("records", "malformed", "future")}
    return {"channels": channels, "totals": totals, "last_malformed": snapshot["last_malformed"]}


def windows(snapshot: dict[str, Any]) -> dict[str, Any]:
    """All but when they fired."""
    reported = snapshot["windows"]
    fired = [{name: value for name, value in one.items() if name != "fired_ms"} for one in reported["last_fired"]]
    return {**reported, "last_fired": fired}


@pytest.fixture(scope="module")
def read_with(full_topic: str, connector_jars: list[Path]) -> dict[str, list[str]]:
    """What to give to have it read by each reader; the connector is taken where it is there."""
    few = [full_topic, "--batch-records", "500"]
    jars = ["--jars", ",".join(map(str, connector_jars))]
    return {"connector": [*few, *jars], "python": [*few, *jars, "--reader", "python"]}


@pytest.fixture(scope="module")
def undisturbed(broker: LocalBroker, read_with: dict[str, list[str]]) -> dict[str, dict[str, Any]]:
    """What each reader shows that nobody disturbs."""
    return {reader: once(broker, *arguments) for reader, arguments in read_with.items()}


@pytest.mark.matrix
def test_both_readers_show_the_same(undisturbed: dict[str, dict[str, Any]]) -> None:
    connector, python = undisturbed["connector"], undisturbed["python"]
    assert connector["source"]["reader"] == "connector"
    assert python["source"]["reader"] == "python"
    assert facts(connector) == facts(python)
    assert connector["totals"] == python["totals"]
    assert windows(connector) == windows(python)
    assert connector["level"]["watermark_ms"] == python["level"]["watermark_ms"]
    assert connector["totals"]["malformed"] == FULL // 100


@pytest.mark.matrix
@pytest.mark.parametrize("way", ["rows", "columns", "connector"])
def test_killed_and_started_again_it_has_read_everything_once(
    way: str,
    broker: LocalBroker,
    read_with: dict[str, list[str]],
    undisturbed: dict[str, dict[str, Any]],
    tmp_path: Path,
) -> None:
    reader = "connector" if way == "connector" else "python"
    time_of = () if way == "columns" else ("--time", "ts")  # kafka-python reads timestamps as columns
    more = (*read_with[reader], "--state-dir", str(tmp_path / "state"))
    process = subprocess.Popen(
        command(broker, *more, time=time_of),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if (json.loads(line)["batch"] or 0) >= 1:
            break
    time.sleep(random.Random(way).random())
    assert process.poll() is None, "it ended before the kill"
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    again = once(broker, *more, time=time_of)
    assert again["source"]["reader"] == reader
    expected = once(broker, *read_with[reader], time=time_of) if way == "columns" else undisturbed[reader]
    assert facts(again) == facts(expected)
    assert again["totals"] == expected["totals"]
    assert windows(again) == windows(expected)
    assert again["totals"]["malformed"] == (0 if way == "columns" else FULL // 100)


@pytest.mark.matrix
def test_balanced_reading_from_the_command_line(broker: LocalBroker, full_topic: str) -> None:
    """To the end of the topic, though the slowest partition holds back the others for most of it."""
    run = once(broker, full_topic, "--max-drift", "1m", "--batch-records", "500")
    assert run["totals"]["records"] + run["totals"]["malformed"] == FULL
    assert run["source"]["max_drift_ms"] == 60_000


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("{broker} orderz", "no topic orderz"),
        ("127.0.0.1:9 t", "no Kafka broker answers at 127.0.0.1:9"),
        ("nonsense t", "no Kafka broker answers at nonsense"),
        ("{broker} {topic} --time stamp", "near ones: ts"),
        ("{broker} {topic} --time a..b", "is not a path"),
        ("{broker} {topic} --reader fast", "auto, connector or python"),
        ("{broker} {topic} --from noon", "earliest, latest, committed or a time"),
        ("{broker} {topic} --from committed", "--group G"),
        ("{broker} {topic} --from committed --group nobody", "has committed nothing"),
        ("{broker} {topic} --max-drift 5m --channel who", "--channel partition"),
        ("{broker} {topic} --time-unit h", "auto, ms, s, us or ns"),
    ],
)
def test_bad_input_is_one_line(
    broker: LocalBroker,
    full_topic: str,
    arguments: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = arguments.format(broker=broker.bootstrap, topic=full_topic).split()
    monkeypatch.setattr(sys, "argv", ["wmtop", "run", "kafka", *words, "--once"])
    began = time.monotonic()
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    output, errors = capsys.readouterr()
    assert output == ""
    [line] = errors.splitlines()
    assert said in line
    assert time.monotonic() - began < WAITS_S, "where nobody listens there is nothing to wait for"


def test_one_address_of_several_is_enough(broker: LocalBroker) -> None:
    cluster = Cluster(KafkaConfig(f"127.0.0.1:9,{broker.bootstrap}"))
    assert cluster.id()
    cluster.close()
