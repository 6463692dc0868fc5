"""The load on the store while a checkpoint in a bucket is followed: requests and bytes per minute, by the query's pace.

A real S3 server (moto's); each batch writes its offsets (12 Kafka partitions) and, a second later, its commit.
"""

import json
import logging
import os
import threading
import time
from http.client import HTTPConnection

from moto.server import ThreadedMotoServer
from pyarrow import fs
from wmtop.engine.targets.spark.checkpoint import CheckpointTap
from wmtop.engine.targets.spark.store import StoredCheckpoint, open_remote

MEASURED_S = 60
BEFORE = 30
"""Batches that exist before the following begins."""


def write(files: fs.FileSystem, number: int, *, commit: bool) -> None:
    """One file of a batch, in Spark's format."""
    level = 1_700_000_000_000 + number
    if commit:
        name, text = "commits", f'v1\n{{"nextBatchWatermarkMs":{level + 1}}}'
    else:
        at = {"batchWatermarkMs": level, "batchTimestampMs": time.time_ns() // 1_000_000}
        offsets = json.dumps({"orders": {str(partition): 10**6 + number for partition in range(12)}})
        name, text = "offsets", "\n".join(["v1", json.dumps(at), offsets])
    with files.open_output_stream(f"lake/orders/{name}/{number}") as out:
        out.write(text.encode())


def measure(files: fs.FileSystem, every_s: float) -> str:
    """One line: a query with a batch every `every_s` seconds, followed for a minute."""
    for number in range(BEFORE):
        write(files, number, commit=False)
        write(files, number, commit=True)
    stopping = threading.Event()

    def query() -> None:
        number = BEFORE
        while not stopping.is_set():
            write(files, number, commit=False)
            stopping.wait(min(1.0, every_s / 2))
            write(files, number, commit=True)
            number += 1
            stopping.wait(max(every_s - 1.0, every_s / 2))

    remote = open_remote("s3://lake/orders")
    assert isinstance(remote, StoredCheckpoint)
    tap = CheckpointTap(remote.path)
    # Earlier batches were written at once, not at the query's pace.
    began = time.time_ns() // 1_000_000
    remote._logs["offsets"] = {n: began - int((BEFORE - n) * every_s * 1_000) for n in range(BEFORE)}  # pyright: ignore[reportPrivateUsage]
    remote.refresh()
    tap.poll()
    at_start = (remote.store.requests, remote.store.bytes_read)
    thread = threading.Thread(target=query)
    thread.start()
    until = time.monotonic() + MEASURED_S
    while time.monotonic() < until:
        remote.refresh()
        tap.poll()
        time.sleep(remote.every_s)
    stopping.set()
    thread.join()
    requests, read = remote.store.requests - at_start[0], remote.store.bytes_read - at_start[1]
    return (
        f"a batch every {every_s:g} s: {requests} requests and {read:,} bytes a minute; start: {at_start[0]} requests"
    )


def main() -> None:
    """Print a line for each pace."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ |= {"AWS_ENDPOINT_URL": f"http://{host}:{port}", "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    files = fs.S3FileSystem(endpoint_override=f"http://{host}:{port}", region="us-east-1", allow_bucket_creation=True)
    for every_s in (1.0, 5.0, 30.0):
        there = HTTPConnection(host, port, timeout=10)
        there.request("POST", "/moto-api/reset")
        there.getresponse().read()
        files.create_dir("lake")
        print(measure(files, every_s), flush=True)
    server.stop()


if __name__ == "__main__":
    main()
