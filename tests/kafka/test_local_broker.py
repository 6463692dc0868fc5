"""The local broker is a real one, survives restarts, leaves nothing behind; what keeps it from starting is one line."""

import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from kafka import KafkaConsumer
from kafka.admin import KafkaAdminClient
from wmtop.engine.kafka.local_broker import KAFKA_VERSION, LocalBroker, kafka_jars
from wmtop.engine.system import java
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.system.java import find_java
from wmtop.engine.targets.flink.demo import FLINK_VERSION

from ..refusals import refused
from .processes import group, wait_until_gone
from .reading import read
from .records import CreateTopic, Produce, Record, Transact

SASL = {
    "num.partitions": "3",
    "listener.name.safe.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.safe.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="ana" password="s\\\\3\\"=cret" user_ana="s\\\\3\\"=cret";'
    ),
}


def test_records_come_out_as_they_went_in(broker: LocalBroker, create_topic: CreateTopic, produce: Produce) -> None:
    topic = create_topic(2, {"retention.ms": "-1"})
    sent = [
        Record(b'{"at": 1}', 0, 1_360_333_930_123, b"UA", (("trace", b"\x00\x01"),)),
        Record(b"second", 1, 7),
        Record(None, 0, 1_360_333_930_000, b"UA"),
    ]
    assert produce(topic, sent) == [0, 0, 1]
    found = [
        Record(r.value, r.partition, r.timestamp, r.key, tuple(r.headers))
        for partition in (0, 1)
        for r in read(broker, topic, partition)
    ]
    assert found == [sent[0], sent[2], sent[1]]


def test_aborted_records_are_not_read_with_read_committed(broker: LocalBroker, topic: str, transact: Transact) -> None:
    transact(topic, [Record(b"kept")])
    transact(topic, [Record(b"taken back")], commit=False)
    transact(topic, [Record(b"kept too")])
    committed = read(broker, topic, isolation_level="read_committed")
    assert [(record.offset, record.value) for record in committed] == [(0, b"kept"), (4, b"kept too")]
    assert [record.offset for record in read(broker, topic)] == [0, 2, 4]  # the others are the ends of transactions


def test_a_missing_topic_is_not_created_by_asking_for_it(broker: LocalBroker, topic: str) -> None:
    admin: Any = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    consumer: Any = KafkaConsumer(bootstrap_servers=broker.bootstrap)
    assert consumer.partitions_for_topic("no-such-topic") in (None, set())
    names = admin.list_topics()
    consumer.close()
    admin.close()
    assert topic in names
    assert "no-such-topic" not in names


@pytest.mark.matrix
@pytest.mark.parametrize("end", [LocalBroker.stop, LocalBroker.kill])
def test_its_data_and_address_survive_its_end(
    broker: LocalBroker, create_topic: CreateTopic, produce: Produce, end: Any
) -> None:
    topic = create_topic(1, {"flush.messages": "1"})
    produce(topic, [Record(b"before")])
    bootstrap, pid = broker.bootstrap, broker.pid
    end(broker)
    assert broker.pid is None
    wait_until_gone(pid)
    broker.restart()
    assert broker.bootstrap == bootstrap
    assert broker.pid not in (None, pid)
    produce(topic, [Record(b"after")])  # by a producer that had been connected before
    assert [record.value for record in read(broker, topic)] == [b"before", b"after"]


def test_further_listeners_answer_properties_win_and_it_ends_when_the_process_that_started_it_is_killed(
    broker: LocalBroker, tmp_path: Path
) -> None:
    script = (
        "import sys, time; from pathlib import Path; from wmtop.engine.kafka.local_broker import LocalBroker\n"
        "properties = dict(line.split('=', 1) for line in sys.argv[2:])\n"
        "broker = LocalBroker(Path(sys.argv[1]), listeners={'SAFE': 'SASL_PLAINTEXT'}, properties=properties)\n"
        "broker.start(); print(broker.pid, *map(broker.address, ('PLAINTEXT', 'SAFE', 'CONTROLLER')), flush=True)\n"
        "time.sleep(600)"
    )
    properties = [f"{name}={value}" for name, value in SASL.items()]
    command = [sys.executable, "-c", script, str(tmp_path), *properties]
    parent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    number, *addresses = parent.stdout.readline().split()
    pid = int(number)
    try:
        assert len({broker.bootstrap, *addresses}) == 4
        admin: Any = KafkaAdminClient(
            bootstrap_servers=addresses[1],
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="PLAIN",
            sasl_plain_username="ana",
            sasl_plain_password='s\\3"=cret',
        )
        admin.create_topics(["default"], wait_for_metadata=True)
        [topic] = admin.describe_topics(["default"])
        admin.close()
        assert len(topic["partitions"]) == 3
        assert (tmp_path / "server.properties").stat().st_mode & 0o077 == 0
        assert pid in group(pid)
        parent.kill()
        parent.wait()
        wait_until_gone(pid)
    finally:
        parent.stdout.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)


@pytest.mark.parametrize("formatted", [False, True])
def test_why_it_does_not_start_is_one_line_that_names_the_log(formatted: bool, tmp_path: Path) -> None:
    """Where its tool for the data directory fails, and where the broker itself does."""
    local = LocalBroker(tmp_path, properties={"num.io.threads": "many"})
    if formatted:
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "meta.properties").touch()
    with refused(RunError, "not_started", "Invalid value many for configuration num.io.threads", local.log):
        local.start()
    assert local.pid is None


@pytest.mark.matrix
def test_a_port_that_is_taken_is_one_line(broker: LocalBroker, tmp_path: Path) -> None:
    taken = LocalBroker(tmp_path, port=int(broker.bootstrap.rpartition(":")[2]))
    reason = f"Socket server failed to bind to {broker.bootstrap}: Address already in use"
    with refused(RunError, "not_started", reason, taken.log):
        taken.start()
    assert taken.pid is None
    assert taken.bootstrap == broker.bootstrap


def test_it_is_reached_from_this_machine_only(broker: LocalBroker) -> None:
    process = Path(f"/proc/{broker.pid}")
    files = {str(path.readlink()) for path in (process / "fd").iterdir() if path.is_symlink()}
    entries = [line.split() for name in ("tcp", "tcp6") for line in (process / "net" / name).read_text().splitlines()]
    listening = [entry[1] for entry in entries if entry[3] == "0A" and f"socket:[{entry[9]}]" in files]
    assert len(listening) == 2  # clients and the controller
    assert all(address.partition(":")[0].endswith("0100007F") for address in listening)


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache directory without jars, and no program but what a test puts into `tmp_path`/bin."""
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda app: str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(find_java().home))
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache"


def maven(directory: Path, script: str) -> None:
    """An `mvn` that stands for a network: it does what the script says."""
    program = directory / "bin" / "mvn"
    program.write_text(
        f"#!/bin/sh\nPATH={os.defpath}\nfor out; do :; done; out=${{out#-DoutputDirectory=}}\n{script}\n"
    )
    program.chmod(0o755)


def test_without_jars_and_maven_it_says_what_to_do(empty_cache: Path, tmp_path: Path) -> None:
    with refused(UsageError, "no_maven"):
        LocalBroker(tmp_path / "broker").start()


def test_jars_are_there_whole_or_not_at_all(empty_cache: Path, tmp_path: Path) -> None:
    maven(tmp_path, 'mkdir -p "$out"; echo part >"$out/kafka_2.13.jar"; echo "[ERROR] no route to host"; exit 1')
    with refused(RunError, "not_fetched", "no route to host"):
        kafka_jars()
    assert [path.name for path in empty_cache.iterdir()] == ["jars.lock"]


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The content of the one jar that is pinned."""
    monkeypatch.setattr(java, "PINS", tmp_path / "pins")
    digest = hashlib.sha512(b"all\n").hexdigest()
    (tmp_path / "pins").write_text(f"{digest}  kafka-{KAFKA_VERSION}/kafka_2.13.jar\n")
    return "all"


@pytest.mark.parametrize(
    ("made", "named"),
    [
        ('echo other >"$out/kafka_2.13.jar"', "kafka_2.13.jar"),
        ('echo all >"$out/kafka_2.13.jar"; echo all >"$out/more.jar"', "more.jar"),
        ('echo all >"$out/more.jar"', "kafka_2.13.jar"),
    ],
)
def test_other_jars_than_those_pinned_are_not_kept(
    empty_cache: Path, tmp_path: Path, pinned: str, made: str, named: str
) -> None:
    maven(tmp_path, f'mkdir -p "$out"; {made}')
    with refused(RunError, "not_pinned", named):
        kafka_jars()
    assert [path.name for path in empty_cache.iterdir()] == ["jars.lock"]


@pytest.mark.parametrize("change", ["changed", "added", "removed", "a directory", "a pipe"])
def test_jars_that_changed_since_are_not_used(empty_cache: Path, tmp_path: Path, pinned: str, change: str) -> None:
    maven(tmp_path, f'mkdir -p "$out"; echo {pinned} >"$out/kafka_2.13.jar"')
    jars = kafka_jars()
    jar = jars / ("evil.jar" if change == "added" else "kafka_2.13.jar")
    jar.unlink(missing_ok=True)
    if change == "a directory":
        jar.mkdir()
    elif change == "a pipe":
        os.mkfifo(jar)
    elif change != "removed":
        jar.write_text("other")
    with refused(RunError, "not_pinned", str(jar), str(jars)):
        LocalBroker(tmp_path / "broker").start()


def test_maven_checks_what_it_fetches(empty_cache: Path, tmp_path: Path, pinned: str) -> None:
    maven(tmp_path, f'echo "$@" >{tmp_path}/arguments; mkdir -p "$out"; echo {pinned} >"$out/kafka_2.13.jar"')
    kafka_jars()
    assert "--strict-checksums" in (tmp_path / "arguments").read_text().split()


@pytest.mark.parametrize("name", [f"kafka-{KAFKA_VERSION}", f"flink-{FLINK_VERSION}"])
def test_what_wmtop_fetches_is_pinned(name: str) -> None:
    pins = [line.split() for line in java.PINS.read_text().splitlines()]
    assert [path for digest, path in pins if path.startswith(f"{name}/") and len(digest) == 128]


def test_jars_are_fetched_once_however_many_ask(empty_cache: Path, tmp_path: Path, pinned: str) -> None:
    maven(tmp_path, f'mkdir -p "$out"; echo {pinned} >"$out/kafka_2.13.jar"; echo fetched >>{tmp_path}/fetches')
    found: list[Path] = []
    said: list[str] = []
    askers = [threading.Thread(target=lambda: found.append(kafka_jars(said.append))) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    jars = empty_cache / f"kafka-{KAFKA_VERSION}"
    assert found == [jars] * 4
    assert (jars / "kafka_2.13.jar").read_text() == "all\n"
    assert (tmp_path / "fetches").read_text() == "fetched\n"
    assert len(said) == 1
    maven(tmp_path, "exit 1")
    assert kafka_jars() == jars  # Maven is not asked again
