"""Calls of the engine's JVM to this process, on a port that everyone on this machine reaches."""

import secrets
import socket
from collections import deque
from contextlib import suppress
from typing import Any, cast

MAX_STRANGERS = 64
"""Connections at once that have not shown the token, at most: each needs a descriptor and a thread."""
SHOWS_TOKEN_WITHIN_S = 5.0
MAX_WAITING = 4_096  # to be taken; where py4j's 5 are full, the JVM tries again after 1, 2, 4 … s


def take_calls(gateway: Any) -> None:
    """Let only this session's JVM call functions of this process.

    PySpark sets no token, and the JVM's side loses its own when PySpark gives it the port (`resetCallbackClient`).
    py4j's server would read from strangers for ever, without a bound on how many they are or how much they send.
    """
    from py4j.clientserver import ClientServerConnection  # pyright: ignore[reportMissingTypeStubs]
    from py4j.java_gateway import JavaObject, server_started  # pyright: ignore[reportMissingTypeStubs]
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
                known = secrets.compare_digest(stream.read(len(greeting)), greeting)
                strangers.remove(connection)
                connection.settimeout(None)
                connection.sendall(b"!yv\n" if known else b"!xn\n")
            except (OSError, ValueError):  # ValueError: a newer stranger has just ended it
                known = False
            if not known:
                return self.close(reset=True)
            return super().run()

    def admit(connection: socket.socket, stream: Any) -> Any:
        strangers.append(connection)
        if len(strangers) > MAX_STRANGERS:
            with suppress(OSError, IndexError):
                strangers.popleft().shutdown(socket.SHUT_RDWR)
        admitted: Any = Connection(parameters, python, gateway.gateway_property, gateway._gateway_client, server)
        admitted.init_socket_from_python_server(connection, stream)
        return admitted

    parameters, python = gateway.java_parameters, gateway.python_parameters
    server: Any = gateway._create_callback_server(python)
    server.port, server._create_connection = 0, admit
    server_started.connect(lambda **_: server.server_socket.listen(MAX_WAITING), server)
    gateway._create_callback_server = lambda parameters: server  # pyright: ignore[reportUnknownLambdaType]
    ensure_callback_server_started(gateway)
    java: Any = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    field = gateway.jvm.java.lang.Class.forName("py4j.CallbackClient").getDeclaredField("authToken")
    field.setAccessible(True)
    field.set(java.getCallbackClient(), token)
