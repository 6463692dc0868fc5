"""`run kafka --late-output --explain` on a real broker: the dropped records, byte for byte, and their cause."""

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from wmtop.engine.kafka.local_broker import LocalBroker

from ..conftest import QUICK_OPTIONS
from .records import CreateTopic, Produce, Record

NOON_MS = 1_767_268_800_000
RECORDS, BATCH, LATENESS_MS, WINDOW_MS = 3_000, 1_000, 60_000, 300_000


@pytest.mark.matrix
def test_late_records_of_a_topic(
    create_topic: CreateTopic, produce: Produce, broker: LocalBroker, tmp_path: Path
) -> None:
    """One partition, so that what is late follows from the order alone."""
    r = random.Random(5)
    topic = create_topic(1)
    times, records, firmwares = list[int](), list[Record](), list[str]()
    for number in range(RECORDS):
        firmware = "4.2" if r.random() < 0.06 else r.choice(("4.0", "5.0"))
        late = r.randrange(600_000, 900_000) if firmware == "4.2" and r.random() < 0.6 else 0
        times.append(NOON_MS + number * 500 - int(r.expovariate(1 / 9_000)) - late)
        firmwares.append(firmware)
        value = json.dumps({"ts": times[-1], "fw": {"version": firmware}}).encode()
        headers = (("n", str(number).encode()), ("raw", b"\xff\x00"))
        records.append(Record(value, 0, NOON_MS + number, b"k%d" % number, headers))
    offsets = produce(topic, records)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "wmtop.tui.cli", "run", "kafka", broker.bootstrap, topic, *QUICK_OPTIONS),
            *("--time", "ts", "--lateness", "1m", "--window", "5m", "--once", "--json", "--batch-records", str(BATCH)),
            *("--late-output", str(tmp_path / "late"), "--explain", "fw.version,partition"),
            *("--firings", str(tmp_path / "firings")),
        ],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    snapshot = json.loads(done.stdout)
    rows = sorted(pq.read_table(tmp_path / "late").to_pylist(), key=lambda row: row["offset"])
    firings = [json.loads(line) for line in (tmp_path / "firings").read_text().splitlines()]
    assert len(rows) == snapshot["totals"]["late"] == sum(x["records"] for x in firings if x["kind"] == "late")
    # The watermark of a batch is the greatest time before it, minus the lateness and 1.
    expected = list[tuple[int, int, int]]()
    for number in range(RECORDS):
        before = number - number % BATCH
        level = max(times[:before], default=0) - LATENESS_MS - 1
        end = times[number] // WINDOW_MS * WINDOW_MS + WINDOW_MS
        if before and end - 1 <= level:
            expected.append((offsets[number], level, end))
    assert [(row["offset"], row["wmtop_watermark_ms"], row["wmtop_window_end_ms"]) for row in rows] == expected
    for row in rows:
        number = offsets.index(row["offset"])
        sent = records[number]
        assert (row["key"], row["value"], row["topic"], row["partition"]) == (sent.key, sent.value, topic, 0)
        assert [(header["key"], header["value"]) for header in row["headers"]] == list(sent.headers)
        assert round(row["timestamp"].timestamp() * 1_000) == sent.timestamp_ms
        assert row["wmtop_late_by_ms"] == row["wmtop_watermark_ms"] - row["wmtop_window_end_ms"] + 1
    version, partition = snapshot["explain"]
    late = Counter(firmwares[offsets.index(row["offset"])] for row in rows)
    assert version["values"][0]["value"] == "4.2"
    assert {it["value"]: it["late"] for it in version["values"]} == {name: late[name] for name in set(firmwares)}
    assert [(value["value"], value["records"]) for value in partition["values"]] == [("0", RECORDS)]
