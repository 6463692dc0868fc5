"""A secured broker lets us in with the right file, a refusal says why, and no secret is to be found afterwards."""

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import javaproperties
import msgspec
import pytest
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.kafka.admission import ANOTHER_NAME
from wmtop.engine.kafka.client_settings import format_login, kafka_config
from wmtop.engine.kafka.cluster import Cluster, Peek, TopicPartition
from wmtop.engine.system.errors import RunError, UsageError

from ..conftest import QUICK_OPTIONS
from ..refusals import refused
from .secured import (
    CLEAR,
    HIDDEN_TOPIC,
    MARK,
    PASSWORD,
    RECORDS,
    SAFE,
    TLS,
    TOPIC,
    UNREADABLE_TOPIC,
    USER,
    Secured,
    no_kafka_variables,
)

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
KEY_PASSWORD = f"key {MARK}"
LOGIN = {"sasl.mechanism": "PLAIN", "sasl.username": USER, "sasl.password": PASSWORD}
TRUST = {"ssl.ca.location": "ca.pem"}
IDENTITY = {"ssl.certificate.location": "own.pem", "ssl.key.location": "own.key", "ssl.key.password": KEY_PASSWORD}
IN_CLEAR = {"security.protocol": "SASL_PLAINTEXT", **LOGIN}
IN_TLS = {"security.protocol": "SASL_SSL", **LOGIN, **TRUST}
CERTIFIED = {"security.protocol": "SSL", **TRUST, **IDENTITY}


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A running broker that asks who we are."""
    made = Secured(tmp_path_factory.mktemp("secured"))
    try:
        made.start()
    except (UsageError, RunError) as error:
        pytest.fail(str(error), pytrace=False)
    yield made
    made.broker.stop()


@pytest.fixture(autouse=True)
def here(secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with the client's certificates, the current one."""
    monkeypatch.chdir(tmp_path)
    Path("ca.pem").write_text(secured.ca)
    Path("own.pem").write_text(secured.client.chain)
    Path("own.key").write_text(secured.client.key(KEY_PASSWORD))
    with no_kafka_variables():
        yield tmp_path


def written(properties: dict[str, str]) -> Path:
    file = Path("client.properties")
    file.write_text(javaproperties.dumps(properties, timestamp=False))
    return file


def connect(address: str, properties: dict[str, str]) -> Cluster:
    return Cluster(kafka_config(address, written(properties)))


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("listener", [SAFE, CLEAR])
def test_each_mechanism_lists_and_reads(secured: Secured, listener: str, mechanism: str) -> None:
    properties = IN_TLS if listener == SAFE else IN_CLEAR
    cluster = connect(secured.broker.address(listener), {**properties, "sasl.mechanism": mechanism})
    assert TOPIC in cluster.topic_names()
    place = TopicPartition(TOPIC, 0)
    peek = Peek(cluster.config)
    tails = peek.tails(cluster.latest([place]), cluster.earliest([place]), {place: 10})
    assert [record.value for record in tails[place]] == [b"0", b"2", b"4"]
    peek.close()
    cluster.close()


def test_a_certificate_is_enough_where_the_broker_asks_for_one(secured: Secured) -> None:
    cluster = connect(secured.broker.address(TLS), CERTIFIED)
    assert TOPIC in cluster.topic_names()
    cluster.close()


def test_the_environment_is_enough(secured: Secured, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in IN_TLS.items():
        monkeypatch.setenv(f"KAFKA_{name.upper().replace('.', '_')}", value)
    cluster = Cluster(kafka_config(secured.broker.address(SAFE)))
    assert TOPIC in cluster.topic_names()
    cluster.close()


def test_the_host_name_need_not_be_checked(secured: Secured) -> None:
    address = secured.broker.address(SAFE).replace("127.0.0.1", "localhost")
    cluster = connect(address, {**IN_TLS, "ssl.endpoint.identification.algorithm": ""})
    assert TOPIC in cluster.topic_names()
    cluster.close()


WRONG = f"wrong {MARK}"
REFUSED = {
    "wrong password": (SAFE, {**IN_TLS, "sasl.password": WRONG}, "refuses user 'watcher' with PLAIN"),
    "wrong password, SCRAM": (
        CLEAR,
        {**IN_CLEAR, "sasl.mechanism": "SCRAM-SHA-512", "sasl.password": WRONG},
        "refuses user 'watcher' with SCRAM-SHA-512; check user name, password",
    ),
    "wrong user": (
        CLEAR,
        {**IN_CLEAR, "sasl.mechanism": "SCRAM-SHA-256", "sasl.username": "nobody"},
        "refuses user 'nobody' with SCRAM-SHA-256",
    ),
    "unknown authority": (SAFE, {name: value for name, value in IN_TLS.items() if name not in TRUST}, "not trusted"),
    "no certificate": (TLS, {"security.protocol": "SSL", **TRUST}, "client certificate"),
    "no log-in": (SAFE, {"security.protocol": "SSL", **TRUST}, "security.protocol=SASL_SSL"),
    "too much log-in": (TLS, {**IN_TLS, **IDENTITY}, "security.protocol=SSL"),
    "TLS to a port without": (CLEAR, IN_TLS, "PLAINTEXT or SASL_PLAINTEXT"),
    "no TLS": (SAFE, IN_CLEAR, "security.protocol=SASL_SSL"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_says_which_in_one_line(case: str, secured: Secured) -> None:
    listener, properties, said = REFUSED[case]
    address = secured.broker.address(listener)
    with pytest.raises(UsageError) as reported:
        connect(address, properties)
    line = str(reported.value)
    assert address in line
    assert said in line
    assert MARK not in line
    assert "\n" not in line


def test_a_certificate_for_another_name_is_refused(secured: Secured) -> None:
    with refused(UsageError, "", ANOTHER_NAME):
        connect(secured.broker.address(SAFE).replace("127.0.0.1", "localhost"), IN_TLS)


def test_kafka_pythons_log_has_no_secret(secured: Secured, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        connect(secured.broker.address(CLEAR), IN_CLEAR).close()
    assert MARK not in caplog.text


def run_kafka(secured: Secured, listener: str, topic: str, *more: str) -> "subprocess.Popen[str]":
    address = secured.broker.address(listener)
    command = [sys.executable, "-m", "wmtop.tui.cli", "run", "kafka", address, topic, "--once", "--json"]
    return subprocess.Popen(
        [*command, "--kafka-config", "client.properties", *more, *QUICK_OPTIONS],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # In this locale a JVM reads its environment as ASCII, and the password is not.
        env={**os.environ, run_directory.RUN_DIR_VARIABLE: f"/tmp/wmtop-test-{os.getpid()}", "LC_ALL": "C"},
    )


@pytest.mark.parametrize(
    ("topic", "changes", "said"),
    [
        (TOPIC, {"sasl.password": WRONG}, "refuses user 'watcher'"),
        (HIDDEN_TOPIC, {}, "not allowed to read the topic hidden"),
        (UNREADABLE_TOPIC, {}, "not allowed to read the topic unreadable"),
    ],
)
def test_the_command_says_it_in_one_line(topic: str, changes: dict[str, str], said: str, secured: Secured) -> None:
    written({**IN_CLEAR, **changes})
    process = run_kafka(secured, CLEAR, topic)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    [line] = error.splitlines()
    assert said in line
    assert MARK not in line


class Arguments(threading.Thread):
    """Looks at the command lines of a process and all below it, as `ps` shows them, until it has ended."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self._over = threading.Event()
        self.seen: set[str] = set()

    def run(self) -> None:
        while not self._over.wait(0.2):
            waiting = [self._pid]
            while waiting:
                pid = waiting.pop()
                try:
                    self.seen.add(Path(f"/proc/{pid}/cmdline").read_text(errors="replace"))
                    children = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/children")]
                except OSError:  # it has just ended
                    continue
                waiting += [int(child) for text in children for child in text.split()]

    def stop(self) -> None:
        self._over.set()
        self.join()


class SecretRun:
    """A run of one of the readers that is told secrets, and every place where it could leave one."""

    def __init__(self, reader: str, secured: Secured, jars: list[Path]) -> None:
        self._reader = reader
        self._own = Path(reader).absolute()
        (self._own / "events").mkdir(parents=True)
        self._process = run_kafka(
            *(secured, SAFE, TOPIC, "--reader", reader, "--name", f"secured-{reader}"),
            *("--state-dir", f"{reader}/state", "--record", f"{reader}/rec", "--firings", f"{reader}/firings"),
            *("--jars", ",".join(map(str, jars))) if reader == "connector" else (),
            *("--conf", "spark.eventLog.enabled=true", "--conf", f"spark.eventLog.dir={self._own / 'events'}"),
            *("--conf", "spark.eventLog.compress=false", "--conf", "spark.sql.ui.explainMode=extended"),
        )
        self._arguments = Arguments(self._process.pid)
        self._arguments.start()

    def places(self) -> dict[str, str]:
        """Wait for its end; what stands where."""
        out, error = self._process.communicate(timeout=200)
        self._arguments.stop()
        assert self._process.returncode == 0, error
        snapshot = json.loads(out)
        assert (snapshot["source"]["reader"], snapshot["totals"]["records"]) == (self._reader, RECORDS)
        assert any("org.apache.spark.deploy.SparkSubmit" in line for line in self._arguments.seen), "it was looked at"
        log = Path(f"/tmp/wmtop-test-{os.getpid()}", f"secured-{self._reader}.log")
        with RecordingReader(self._own / "rec") as recording:
            recorded = msgspec.json.encode(list(recording)).decode()
        found = {"stdout": out, "stderr": error, "recording": recorded, "log": log.read_text()}
        found |= {f"arguments {number}": line for number, line in enumerate(self._arguments.seen)}
        for path in self._own.rglob("*"):
            if path.is_file():
                found[str(path.relative_to(self._own))] = path.read_text(errors="replace")
        return found


@pytest.mark.parametrize("reader", ["python", pytest.param("connector", marks=pytest.mark.matrix)])
def test_a_run_leaves_no_secret_anywhere(reader: str, secured: Secured, connector_jars: list[Path]) -> None:
    login = format_login("SCRAM-SHA-512", USER, PASSWORD)
    protocol = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": login}
    written({**protocol, **TRUST, **IDENTITY, "some.other.property": MARK})
    key = secured.client.key(KEY_PASSWORD).splitlines()[5]
    places = SecretRun(reader, secured, connector_jars).places()
    shows_topic = {Path(name).parts[0] for name, text in places.items() if TOPIC in text}
    assert {"stdout", "recording", "state", "events"} <= shows_topic, "what is there is found"
    assert [name for name, text in places.items() if MARK in text or key in text] == []
