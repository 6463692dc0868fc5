"""A JobManager that lies about sizes gets one line, and none of the memory of this machine."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.targets.open import open_target

JOB = "0" * 32
OVERVIEW = {"jobs": [{"jid": JOB, "name": "orders", "state": "RUNNING", "start-time": 1, "end-time": -1}]}
VERTEX = {"id": "1" * 32, "name": "Source: orders", "parallelism": 1, "status": "RUNNING"}


@pytest.fixture
def answers() -> Iterator[tuple[str, dict[str, bytes]]]:
    """An address, and the bodies that are answered there, by path."""
    bodies: dict[str, bytes] = {"/jobs/overview": json.dumps(OVERVIEW).encode()}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = bodies.get(self.path.partition("?")[0])
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body or b"{}")

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    yield f"flink://127.0.0.1:{http.server_port}/{JOB}", bodies
    http.shutdown()


@pytest.mark.parametrize("parallelism", ["2000000000", "32769", "9" * 400, "9" * 5_000, "1e400"])
def test_a_parallelism_that_no_job_has_is_one_line(answers: tuple[str, dict[str, bytes]], parallelism: str) -> None:
    address, bodies = answers
    vertex = json.dumps(VERTEX).replace('"parallelism": 1', f'"parallelism": {parallelism}')
    bodies[f"/jobs/{JOB}"] = f'{{"now": 2, "vertices": [{vertex}], "timestamps": {{"RUNNING": 1}}}}'.encode()
    with pytest.raises((UsageError, RunError)) as caught:
        open_target(address)
    assert len(str(caught.value)) < 500
    assert "REST API" in str(caught.value)
