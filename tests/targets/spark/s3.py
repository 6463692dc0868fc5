"""A real S3 server (moto's), and a proxy before it that counts, delays, refuses, or lists what was there earlier."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from moto.server import ThreadedMotoServer
from pyarrow import fs

BUCKET = "lake"
ACCESS_DENIED = (403, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
UNAVAILABLE = (503, b"<Error><Code>SlowDown</Code><Message>slow down</Message></Error>")


class S3:
    """`asked` and `sent` (bytes) count; `fault` answers every request in the server's place; `delay_s` delays it;
    `lists_late` freezes listings.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.sent = 0
        self.fault: tuple[int, bytes] | None = None
        self.delay_s = 0.0
        self.lists_late = False
        self._lists: dict[str, tuple[int, dict[str, str], bytes]] = {}
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        self._moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self._moto.start()
        host, port = self._moto.get_host_and_port()
        self._at = (host, port)
        self._files = fs.S3FileSystem(
            access_key="key",
            secret_key="secret",
            region="us-east-1",
            endpoint_override=f"http://{host}:{port}",
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )
        self._proxy = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._proxy.daemon_threads = True
        threading.Thread(target=self._proxy.serve_forever, daemon=True).start()
        self.endpoint = f"http://127.0.0.1:{self._proxy.server_port}"
        there = HTTPConnection(host, port, timeout=10)
        there.request("POST", "/moto-api/reset")  # moto's content is the process's, not the server's
        assert there.getresponse().status == 200
        self._files.create_dir(BUCKET)

    @property
    def environment(self) -> dict[str, str]:
        """What a user's shell has."""
        return {"AWS_ENDPOINT_URL": self.endpoint, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}

    def put(self, path: Path, key: str) -> None:
        """Upload a file, or everything below a directory."""
        for each in [path] if path.is_file() else sorted(path.rglob("*")):
            if each.is_file() and not each.name.startswith("."):
                name = key if path.is_file() else f"{key}/{each.relative_to(path).as_posix()}"
                with self._files.open_output_stream(f"{BUCKET}/{name}", compression=None) as out:
                    out.write(each.read_bytes())

    def delete(self, key: str) -> None:
        """Delete everything below a key."""
        self._files.delete_dir(f"{BUCKET}/{key}")

    def close(self) -> None:
        self._proxy.shutdown()
        self._proxy.server_close()
        self._moto.stop()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.asked.append(f"{self.command} {self.path}")
                time.sleep(outer.delay_s)
                if outer.fault is not None:
                    status, headers, body = outer.fault[0], {"Content-Type": "application/xml"}, outer.fault[1]
                elif "list-type" in self.path and outer.lists_late and self.path in outer._lists:
                    status, headers, body = outer._lists[self.path]
                else:
                    status, headers, body = self._forward()
                    if "list-type" in self.path:
                        outer._lists[self.path] = status, headers, body
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                if self.command != "HEAD":
                    outer.sent += len(body)
                    self.wfile.write(body)

            def do_HEAD(self) -> None:
                self.do_GET()

            def _forward(self) -> tuple[int, dict[str, str], bytes]:
                there = HTTPConnection(*outer._at, timeout=10)
                there.request(self.command, self.path, headers=dict(self.headers))
                answer = there.getresponse()
                body = answer.read()
                kept = ("ETag", "Last-Modified", "Content-Type", "Content-Length", "Content-Range", "Accept-Ranges")
                return answer.status, {name: answer.headers[name] for name in kept if name in answer.headers}, body

            def log_message(self, format: str, *args: object) -> None:
                pass

        return Handler


@contextmanager
def s3_server() -> Iterator[S3]:
    """A server with one bucket, for as long as the block runs."""
    made = S3()
    try:
        yield made
    finally:
        made.close()
