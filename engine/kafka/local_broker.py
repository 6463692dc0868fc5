"""A real Kafka broker with one node on this machine, without a container: for the demo and for tests."""

import base64
import contextlib
import json
import random
import re
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Self

from ..system.errors import RunError
from ..system.java import fetched_jars, find_java

KAFKA_VERSION = "4.1.0"
# Kafka logs through slf4j and has no logger of its own: the simple one needs no configuration file.
_ARTIFACTS = (f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}", "org.slf4j:slf4j-simple:1.7.36")

HOST = "127.0.0.1"
_DEFAULTS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",  # a misspelled topic is an error
    # A small footprint: the cleaner alone would take 128 MB.
    "log.cleaner.dedupe.buffer.size": "4194304",
    "num.network.threads": "2",
    "num.io.threads": "2",
    "background.threads": "2",
}
# Without the optimising compiler it starts in half the time.
_JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-Xmx512m")
_LOG_OPTIONS = (
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
    "-Dorg.slf4j.simpleLogger.log.kafka.server.KafkaRaftServer=info",  # logged when the broker is up
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS",
)
_STARTED = "Kafka Server started"
_START_S = 90.0
_STOP_S = 15.0
_POLL_S = 0.05
_EXCEPTION = re.compile(r'(?:Exception in thread "[^"]*" )?(?:\w+\.)+[\w$]+(?:Exception|Error): (?P<reason>.+)')
# A JVM does not notice the death of its parent. So a shell beside it waits for the end of a pipe that has no writer and
# closes with the parent, however the parent dies; it then kills their process group, itself included. The other shell
# becomes the JVM, so that a signal to our child reaches the broker itself.
_TIED = 'exec 3<&0; { read -r _ <&3; kill -KILL 0; } & exec "$@" </dev/null 3<&-'


def kafka_jars(report: Callable[[str], None] = lambda text: None) -> Path:
    """The directory of a broker's jars, fetched (45 MB) if they are missing; errors as in `fetched_jars`."""
    return fetched_jars(
        f"kafka-{KAFKA_VERSION}",
        _ARTIFACTS,
        f"fetching Kafka {KAFKA_VERSION} (45 MB, once)",
        report,
        what="a local Kafka broker",
        instead="give a running broker: wmtop run kafka BOOTSTRAP TOPIC",
    )


class LocalBroker:
    """A broker with one node on loopback; settings, log and data are in `directory`. It never outlives this process.

    Clients reach it at `bootstrap` without security. `port` 0: a free port, kept over restarts. `listeners` are
    additional ones by name with their security protocol, each at a free port (`address`), e.g. `{"SAFE": "SASL_SSL"}`.
    `properties` override the defaults.
    """

    def __init__(
        self,
        directory: Path,
        *,
        port: int = 0,
        listeners: Mapping[str, str] | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        self._directory = directory
        self._protocols = {"PLAINTEXT": "PLAINTEXT", **(listeners or {}), "CONTROLLER": "PLAINTEXT"}
        self._ports = dict(zip(self._protocols, free_ports(len(self._protocols)), strict=True))
        if port:
            self._ports["PLAINTEXT"] = port
        self._properties = dict(properties or {})
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for clients: host and port."""
        return self.address("PLAINTEXT")

    def address(self, listener: str) -> str:
        """Host and port of a listener."""
        return f"{HOST}:{self._ports[listener]}"

    @property
    def log(self) -> Path:
        """The log file of the broker's last start."""
        return self._directory / "broker.log"

    @property
    def pid(self) -> int | None:
        """The process id of the broker; None if it is not started."""
        return None if self._process is None else self._process.pid

    def start(self, report: Callable[[str], None] = lambda text: None) -> None:
        """Start it and wait until it answers; `report` gets each step that may take long.

        UsageError without Java or a way to get Kafka's jars, RunError if it does not start.
        """
        assert self._process is None
        jars = kafka_jars(report)
        self._directory.mkdir(parents=True, exist_ok=True)
        settings = self._write_settings()
        command = [str(find_java().home / "bin" / "java"), *_JAVA_OPTIONS, *_LOG_OPTIONS, "-cp", f"{jars}/*"]
        report("starting a Kafka broker")
        if not (self._data / "meta.properties").exists():  # formatting writes it last
            id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")  # in Kafka's form
            self._run([*command, "kafka.tools.StorageTool", "format", f"--cluster-id={id}", "-c", settings])
        try:
            self._launch([*command, "kafka.Kafka", settings])
        except BaseException:
            self.kill()
            raise

    def stop(self) -> None:
        """Stop it cleanly, by force if that takes too long; does nothing if it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        self.kill()

    def kill(self) -> None:
        """Kill it, as in a crash; its data stay. Does nothing if it does not run."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()  # ends the waiting shell, too

    def restart(self) -> None:
        """Stop it if it runs, and start it again with the same address and data."""
        self.stop()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def _data(self) -> Path:
        return self._directory / "data"

    def _write_settings(self) -> str:
        """Write `server.properties`; returns its path."""
        listeners = {name: f"{name}://{self.address(name)}" for name in self._protocols}
        properties = {
            **_DEFAULTS,
            "controller.quorum.voters": f"1@{self.address('CONTROLLER')}",
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(url for name, url in listeners.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in self._protocols.items()),
            "log.dirs": str(self._data),
            **self._properties,
        }
        path = self._directory / "server.properties"
        # Java properties files use JSON's escapes.
        path.write_text("".join(f"{key}={json.dumps(value)[1:-1]}\n" for key, value in properties.items()))
        path.chmod(0o600)  # it may hold passwords
        return str(path)

    def _run(self, command: list[str]) -> None:
        """Run a tool to its end, with its output in the log."""
        with self.log.open("wb") as log:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False)
        if done.returncode:
            raise self._failed()

    def _launch(self, command: list[str]) -> None:
        """Start the broker and wait until its log reports that it is up."""
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _TIED, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        deadline = time.monotonic() + _START_S
        while _STARTED not in self._said():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise self._failed()
            time.sleep(_POLL_S)

    def _said(self) -> str:
        return self.log.read_bytes().decode(errors="replace")

    def _failed(self) -> RunError:
        """One line: the reason, from the log, and where the log is."""
        lines = [line.strip() for line in self._said().splitlines() if line.strip()]
        reasons = [match["reason"] for match in map(_EXCEPTION.match, lines) if match]
        reason = (reasons[:1] or lines[-1:] or ["its log is empty"])[0]  # later lines are consequences of the first
        return RunError(f"the Kafka broker did not start: {reason} (log: {self.log})", code="not_started")


def free_ports(count: int) -> list[int]:
    """Free ports of loopback, below the range that the system uses for connections.

    A port in that range could be taken while the broker is down, even by a client that tries to reconnect.
    """
    free = (port for port in random.sample(range(20_000, 32_000), 1_000) if _is_free(port))
    return list(islice(free, count))


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker does
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
