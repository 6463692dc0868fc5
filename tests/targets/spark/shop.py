"""The job of `http_job.py` and Spark's own History Server, in processes of their own."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pyspark

from ...conftest import job_environment

PATIENCE_S = 180
_T = TypeVar("_T")


def free_port() -> int:
    with closing(socket.socket()) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def until(ask: Callable[[], _T | None]) -> _T:
    """What a question is answered with, once it is."""
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if (answer := ask()) is not None:
            return answer
        time.sleep(0.3)
    raise TimeoutError


def started_job(directory: Path, port: int, *settings: str) -> "subprocess.Popen[bytes]":
    """The job; its event log is written into `logs` of the directory."""
    (directory / "logs").mkdir(exist_ok=True)
    script = str(Path(__file__).with_name("http_job.py"))
    return _started([sys.executable, script, str(directory), str(port), *settings], {})


def started_history_server(logs: Path, port: int) -> "subprocess.Popen[bytes]":
    home = str(Path(pyspark.__file__).parent)
    options = {
        "spark.history.fs.logDirectory": logs.as_uri(),
        "spark.history.ui.port": str(port),
        "spark.history.fs.update.interval": "1s",
    }
    environment = {
        "SPARK_HOME": home,
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HISTORY_OPTS": " ".join(f"-D{key}={value}" for key, value in options.items()),
    }
    return _started([f"{home}/bin/spark-class", "org.apache.spark.deploy.history.HistoryServer"], environment)


def _started(command: list[str], environment: dict[str, str]) -> "subprocess.Popen[bytes]":
    quiet = subprocess.DEVNULL
    return subprocess.Popen(command, env={**os.environ, **job_environment(), **environment}, stdout=quiet, stderr=quiet)


def applications(port: int) -> Any:
    """The applications that a driver or History Server lists; None while it does not list them."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/applications", timeout=10) as answer:
            return json.load(answer)
    except (OSError, ValueError):  # a History Server that starts answers with a page
        return None
