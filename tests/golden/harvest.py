"""Makes the inputs of the golden tests from what Spark left; needed again only for new jobs.

`python -m tests.golden.harvest gallery DIRECTORY TRUTHS`: the checkpoints and the event log of a finished gallery
(`python -m tests.gallery.jobs DIRECTORY > TRUTHS`), without what attach does not read.
"""

import io
import json
import re
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import zstandard

from .golden import INPUTS, PLACE

LISTENER = "org.apache.spark.sql.streaming.StreamingQueryListener$"
KEPT = (
    "SparkListenerLogStart", "SparkListenerApplicationStart", "SparkListenerApplicationEnd",
    "SparkListenerEnvironmentUpdate", "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart", LISTENER,
)  # fmt: skip
"""The events of a log that attach reads."""
PLAN = ("Event", "executionId", "rootExecutionId", "description", "sparkPlanInfo", "time", "modifiedConfigs")
"""What it reads of a plan's execution."""
MACHINE = re.compile(rb'/[^\s"\\]*/(site-packages/|tests/gallery/)')
"""Paths in stack traces."""


def gallery(directory: Path, truths: Path) -> None:
    """Write `inputs/gallery.tar.xz`, and the query of each job with the time at which it is looked at."""
    jobs = [json.loads(line) for line in truths.read_text().splitlines()]
    looked = {}
    [log] = (directory / "log").glob("eventlog_v2_*/events_*")
    events = _events(log)
    with tarfile.open(INPUTS / "gallery.tar.xz", "w:xz", format=tarfile.PAX_FORMAT, preset=9) as tar:
        for job in jobs:
            home = directory / job["job"]
            files = [path for path in sorted(home.rglob("*")) if path.is_file() and path.suffix != ".crc"]
            for path in files:
                _add(tar, path, path.relative_to(directory), path.read_bytes(), directory)
            own = Path(job["job"], log.relative_to(directory).with_suffix(""))
            queries = {json.loads(path.read_text())["id"] for path in home.glob("**/checkpoint/metadata")}
            _add(tar, log, own, b"".join(_of_queries(events, {job["id"], *queries})), directory)
            newest = max(path.stat().st_mtime_ns for path in files) // 1_000_000
            looked[job["job"]] = {"query": job["id"], "now_ms": newest + 5_000}
    (INPUTS / "gallery.json").write_text(
        "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in looked.items()) + "\n}\n"
    )


def _events(log: Path) -> list[dict[str, Any]]:
    """The events of a log, without what attach does not read."""
    with log.open("rb") as file:
        whole = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True).read()
    events = [json.loads(line) for line in MACHINE.sub(rb"/\1", whole).splitlines()]
    return [_stripped(event) for event in events if event["Event"].startswith(KEPT)]


def _stripped(event: dict[str, Any]) -> dict[str, Any]:
    if event["Event"] == "SparkListenerEnvironmentUpdate":  # the rest is about the machine
        settings = event["Spark Properties"]
        kept = {key: value for key, value in settings.items() if key.startswith("spark.sql.")}
        return {"Event": event["Event"], "Spark Properties": kept}
    if event["Event"].endswith("SQLExecutionStart"):
        return {name: event[name] for name in PLAN if name in event}
    return event


def _of_queries(events: list[dict[str, Any]], ids: set[str]) -> Iterator[bytes]:
    """The lines about the application and these queries: a log of a job of its own."""
    executions: set[int] = set()
    for event in events:
        if "sparkPlanInfo" in event:
            if event.get("rootExecutionId") not in executions and not any(id in event["description"] for id in ids):
                continue
            executions.add(event["executionId"])
        elif event["Event"].startswith(LISTENER) and event.get("progress", event)["id"] not in ids:
            continue
        yield json.dumps(event, separators=(",", ":")).encode() + b"\n"


def _add(tar: tarfile.TarFile, path: Path, name: Path, data: bytes, directory: Path) -> None:
    data = data.replace(f"{directory}/".encode(), f"{PLACE}/".encode())
    info = tarfile.TarInfo(str(name))
    info.size, info.mtime, info.mode = len(data), path.stat().st_mtime_ns / 1e9, 0o644
    tar.addfile(info, io.BytesIO(data))


if __name__ == "__main__":
    {"gallery": gallery}[sys.argv[1]](*map(Path, sys.argv[2:]))
