"""Spark clusters on this machine, from the installed PySpark."""

import os
import socket
import subprocess
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pyspark
from wmtop.engine.system.java import find_java


class Cluster(NamedTuple):
    """The master's URL, and the workers' process ids."""

    url: str
    workers: list[int]


@contextmanager
def local_cluster(directory: Path, workers: int) -> Generator[Cluster]:
    """A master with some workers of one core each, all in directories of their own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(pyspark.__file__).parent
    environment = {"PATH": os.environ["PATH"], "JAVA_HOME": str(find_java().home), "SPARK_HOME": str(home)}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "128m", "HOME": str(directory)}
    environment["SPARK_DAEMON_JAVA_OPTS"] = "-XX:TieredStopAtLevel=1"
    url = f"spark://127.0.0.1:{port}"

    def start(name: str, *arguments: str) -> int:
        (directory / name).mkdir()
        log = (directory / name / "log").open("wb")
        command = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
        process = subprocess.Popen(command, cwd=directory / name, env=environment, stdout=log, stderr=log)
        closing.callback(process.wait)
        closing.callback(process.terminate)
        return process.pid

    with ExitStack() as closing:
        start("master", "master.Master", "-h", "127.0.0.1", "-p", str(port), "--webui-port", "0")
        worker = ("worker.Worker", "-h", "127.0.0.1", "-c", "1", "-m", "1g", "--webui-port", "0", url)
        yield Cluster(url, [start(f"worker-{number}", *worker) for number in range(workers)])
