"""Answers of a real Flink's REST API, recorded poll by poll, and served again as the time of the clock goes on.

A recording is a file of lines `{"at_ms", "path", "status", "body"}`; without a status nobody answered. Of a list of
metrics (`?get=a,b`) each metric is kept by itself, so that a client that asks for others together gets the same values.
"""

import json
import threading
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote


def serve(recording: Path, now_ms: Callable[[], int]) -> str:
    """Serve a recording in this process until it ends; returns `flink://HOST:PORT`."""
    answers = Answers(map(json.loads, recording.read_text().splitlines()))

    class Handler(BaseHTTPRequestHandler):
        wbufsize = -1  # an answer is one packet: two would wait for the client's delayed acknowledgement

        def do_GET(self) -> None:
            status, body = answers.at(self.path, now_ms())
            if status is None:
                self.close_connection = True
                return
            data = json.dumps(body).encode()
            self.send_response_only(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"flink://127.0.0.1:{server.server_port}"


class Answers:
    """The answer to a path at a time: the last one recorded by then, or else the first one after."""

    def __init__(self, lines: Iterable[dict[str, Any]]) -> None:
        self._by_path: dict[str, list[tuple[int, int | None, Any]]] = defaultdict(list)
        for line in lines:
            for path, body in parts(line["path"], line["status"], line["body"]):
                self._by_path[path].append((line["at_ms"], line["status"], body))

    def at(self, path: str, now_ms: int) -> tuple[int | None, Any]:
        base, found, rest = path.partition("get=")
        if not found:
            status, body = self._one(path, now_ms) or (404, {"errors": ["not recorded"]})
            return status, self._asked(path, body) if status == 200 and path.endswith("/metrics") else body
        names, more, tail = rest.partition("&")
        asked = [self._one(f"{base}get={quote(unquote(name))}{more}{tail}", now_ms) for name in names.split(",")]
        known = [one for one in asked if one is not None]
        failed = [one for one in known if one[0] != 200]
        return failed[0] if failed else (200, [body for _, body in known if body is not None])

    def _asked(self, path: str, listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The metrics of a list without those of splits that the recording's client, an older one, did not ask for."""
        recorded = (f"{path}?get={quote(one['id'])}" in self._by_path for one in listed)
        return [one for one, known in zip(listed, recorded, strict=True) if known or ".split." not in one["id"]]

    def _one(self, path: str, now_ms: int) -> tuple[int | None, Any] | None:
        known = self._by_path.get(path)
        if not known:
            return None
        return known[max(bisect_right([at for at, _, _ in known], now_ms) - 1, 0)][1:]


def parts(path: str, status: int | None, body: Any) -> Iterable[tuple[str, Any]]:
    """An answer by path; of a list of metrics each one, None for one that was asked for and is missing."""
    base, found, rest = path.partition("get=")
    if not found:
        yield path, body
        return
    names, more, tail = rest.partition("&")
    values = {one["id"]: one for one in body} if status == 200 else {}
    for name in map(unquote, names.split(",")):
        yield f"{base}get={quote(name)}{more}{tail}", values.get(name) if status == 200 else body
