"""Spark's JVM: its errors as one line, restarts of the query, calls that it may not answer, and who calls from it."""

import errno
import os
import re
import secrets
import socket
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from select import POLLIN, poll
from typing import Any, cast

from ..system.errors import RunError

SILENT_AFTER_S = 10.0
"""Longest wait (s) for the JVM before the run is shown as stale."""
ANSWERS_WITHIN_S = 5.0
"""Longest time (s) that a stopping JVM may leave a question unanswered before it is killed."""
STOPS_WITHIN_S = 30.0
"""Longest time (s) that an answering JVM may take to stop before it is killed."""
MAX_STRANGERS = 256
"""Connections at once that have not shown the token, at most: each needs a descriptor and a thread."""
SHOWS_TOKEN_WITHIN_S = 5.0
"""Longest time (s) for a connection to this process, on a port that everyone on this machine reaches, to show it."""
_REASON = re.compile(r"(?:Caused by: |: )?(?:[\w$]+\.)*[A-Z]\w*(?:Error|Exception|Timeout): (?P<reason>.+)")


class SparkError(RunError):
    """Spark failed; the text is one line, to which the engine adds the place of Spark's log."""


@contextmanager
def spark_errors() -> Generator[None]:
    """Turn Spark's exceptions inside into a `SparkError`, while its JVM still has the text."""
    from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkError(reason_of(error)) from error


def reason_of(error: BaseException) -> str:
    """The innermost reason of an error, without Java's, Spark's or Python's decoration; else its first line."""
    try:
        text = str(error)
    except Exception:  # an error of PySpark asks the JVM for its text, which may be gone
        text = ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reasons = [match["reason"] for match in map(_REASON.match, lines) if match]
    reasons = [reason for reason in reasons if not reason.startswith(("Job aborted", "Traceback"))]
    return next(iter([*reasons[-1:], *lines[:1]]), type(error).__name__)


class QueryFailures:
    """The failures of one query since its last batch, and when it starts again (`Source.retry_after_s`)."""

    def __init__(
        self,
        retry_after_s: Callable[[int, str], float | None] | None,
        checkpoint: Path,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._retry_after_s = retry_after_s
        self._checkpoint = checkpoint
        self._clock_s = clock_s
        self.read_error: BaseException | None = None
        """The error that kept the last batch from being read: its source may say that a retry helps."""
        self._count = 0
        self._retry_at: float | None = None

    def batch_applied(self) -> None:
        """Reset: the next failure counts as the first."""
        self._count = 0

    def forget(self) -> None:
        """The query ends for another reason, and starts again."""
        self._retry_at = self.read_error = None

    def is_restart_due(self, error: BaseException) -> bool:
        """Whether the query that ended with `error` starts again now; SparkError if it has failed for good."""
        if self._retry_at is None:
            self._count += 1
            why = reason_of(self.read_error or error)
            wait_s = None if self._retry_after_s is None else self._retry_after_s(self._count, why)
            if wait_s is None:
                raise SparkError(self._with_advice(why))
            self._retry_at = self._clock_s() + wait_s
        if self._clock_s() < self._retry_at:
            return False
        self._retry_at = self.read_error = None
        return True

    def _with_advice(self, why: str) -> str:
        """Spark's message about a full disk, which names no file, with the directory and the fix."""
        if os.strerror(errno.ENOSPC) not in why:
            return why
        return (
            f"Spark cannot write in {self._checkpoint} or its local directory: {why}; free some space and run "
            "the same command again: with --state-dir it continues after the last saved batch"
        )


class JvmWatch:
    """Calls `begin` once, then `beat` every `every_s` until that returns False, on a thread of its own.

    `error` is what either raised. The caller reads `silent_s`, `done` and `error`; it never waits.
    """

    def __init__(self, begin: Callable[[], None], beat: Callable[[], bool], every_s: float) -> None:
        self.began = False
        """Whether `begin` has returned."""
        self.done = False
        """Whether `beat` has returned False."""
        self.error: Exception | None = None
        self._begin = begin
        self._beat = beat
        self._every_s = every_s
        self._calling_since: float | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wmtop-jvm-watch", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 0.5) -> None:
        """Make no more calls; waits at most `timeout_s` for the present one."""
        self._stopping.set()
        self._thread.join(timeout_s)

    @property
    def silent_s(self) -> float:
        """How long (s) the present `beat` has been waiting."""
        since = self._calling_since
        return 0.0 if since is None else time.monotonic() - since

    def _run(self) -> None:
        try:
            self._begin()
            self.began = True
            while not self._stopping.wait(self._every_s):
                self._calling_since = time.monotonic()
                again = self._beat()
                self._calling_since = None
                if not again:
                    self.done = True
                    return
        except Exception as error:
            self._calling_since = None
            self.error = error


@contextmanager
def killed_if_stuck(process: "subprocess.Popen[bytes]", ask: Callable[[], Any]) -> Generator[None]:
    """A context in which the JVM is killed if it does not answer `ask` in time, or if the whole takes too long.

    Calls that wait for it then end with an error of py4j.
    """
    over = threading.Event()

    def question() -> None:
        with suppress(Exception):  # it has ended or is ending: the next call reports that
            ask()

    def watch() -> None:
        asking = threading.Thread(target=question, name="wmtop-jvm-question", daemon=True)
        asking.start()
        asking.join(ANSWERS_WITHIN_S)
        if (asking.is_alive() or not over.wait(STOPS_WITHIN_S)) and not over.is_set():
            process.kill()

    threading.Thread(target=watch, name="wmtop-jvm-kill", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def take_calls(gateway: Any) -> None:
    """Let only this session's JVM call functions of this process.

    PySpark sets no token, and the JVM's side loses its own when PySpark gives it the port (`resetCallbackClient`).
    py4j's server would read from strangers for ever, without a bound on how many they are or how much they send.
    """
    from py4j.clientserver import ClientServerConnection  # pyright: ignore[reportMissingTypeStubs]
    from py4j.java_gateway import JavaObject  # pyright: ignore[reportMissingTypeStubs]
    from pyspark.java_gateway import ensure_callback_server_started  # pyright: ignore[reportUnknownVariableType]

    token = secrets.token_hex(32)
    greeting = f"A\n{token}\ne\n".encode()
    strangers = deque[socket.socket]()

    # As PySpark's own: what a called function asks of the JVM, the calling thread of the JVM does. That one has the
    # query's job group, and is interrupted when the query stops.
    class Connection(ClientServerConnection):
        def run(self) -> None:
            ours = cast("Any", self)  # py4j has no types
            connection, stream = ours.socket, ours.stream
            try:
                connection.settimeout(SHOWS_TOKEN_WITHIN_S)
                # The token stays in the socket until this is no stranger: `admit` spares who has sent something.
                known = secrets.compare_digest(connection.recv(len(greeting), socket.MSG_PEEK), greeting)
                connection.settimeout(None)
                connection.sendall(b"!yv\n" if known else b"!xn\n")
            except OSError:
                known = False
            with suppress(ValueError):
                strangers.remove(connection)
            return super().run() if known and stream.read(len(greeting)) else self.close(reset=True)

    def admit(connection: socket.socket, stream: Any) -> Any:
        server.server_socket.listen(socket.SOMAXCONN)  # that so many may wait; py4j's 5 are soon full
        strangers.append(connection)
        if len(strangers) > MAX_STRANGERS:
            with suppress(OSError, IndexError, ValueError):  # it ends at this moment
                oldest, unread = strangers.popleft(), poll()
                unread.register(oldest, POLLIN)
                if not unread.poll(0):
                    oldest.shutdown(socket.SHUT_RDWR)
        admitted: Any = Connection(parameters, python, gateway.gateway_property, gateway._gateway_client, server)
        admitted.init_socket_from_python_server(connection, stream)
        return admitted

    parameters, python = gateway.java_parameters, gateway.python_parameters
    server: Any = gateway._create_callback_server(python)
    server.port, server._create_connection = 0, admit
    gateway._create_callback_server = lambda parameters: server  # pyright: ignore[reportUnknownLambdaType]
    ensure_callback_server_started(gateway)
    java: Any = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(java.getCallbackClient(), token)
