"""Calls of the engine's JVM to this process, on a port that everyone on this machine reaches."""

import secrets
import socket
from collections import deque
from contextlib import suppress
from select import POLLIN, poll
from typing import Any, cast

MAX_STRANGERS = 256
"""Connections at once that have not shown the token, at most: each needs a descriptor and a thread."""
SHOWS_TOKEN_WITHIN_S = 5.0


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
