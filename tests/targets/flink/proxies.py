"""A proxy before a real Flink or Spark: it shifts a clock, asks for TLS or credentials, adds a path prefix."""

import re
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_TIMES = re.compile(rb'("(?:now|end-timestamp|start-time|latest_ack_timestamp|RUNNING)":)([1-9]\d{12})')


class Proxy:
    """What it does with each request; `asked` has the paths and headers that came."""

    def __init__(
        self, target: str, *, shift_ms: int = 0, prefix: str = "", context: ssl.SSLContext | None = None,
        authorization: str | None = None, redirect: str | None = None,
    ) -> None:  # fmt: skip
        self.asked: list[tuple[str, dict[str, str]]] = []
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                proxy.asked.append((self.path, dict(self.headers)))
                if redirect is not None:
                    self._answer(302, b"", Location=redirect + self.path)
                elif authorization is not None and self.headers.get("Authorization") != authorization:
                    self._answer(401, b"<html>sign in</html>")
                elif not self.path.startswith(prefix):
                    self._answer(404, b"<html>not here</html>")
                else:
                    self._forward(self.path.removeprefix(prefix))

            def _forward(self, path: str) -> None:
                try:
                    with urllib.request.urlopen(target + path, timeout=10) as answer:
                        status, body, headers = answer.status, answer.read(), answer.headers
                except urllib.error.HTTPError as error:
                    status, body, headers = error.code, error.read(), error.headers
                shifted = _TIMES.sub(lambda match: match[1] + b"%d" % (int(match[2]) + shift_ms), body)
                self._answer(status, shifted, **{"Content-Type": headers.get("Content-Type", "")})

            def _answer(self, status: int, body: bytes, **headers: str) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        if context is not None:
            self._http.socket = context.wrap_socket(self._http.socket, server_side=True)
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self._http.server_port}{prefix}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def proxy(target: str, **options: object) -> Iterator[Proxy]:
    """A proxy before the server at `target`, for as long as the block runs."""
    made = Proxy(target, **options)  # type: ignore[arg-type]
    try:
        yield made
    finally:
        made.close()
