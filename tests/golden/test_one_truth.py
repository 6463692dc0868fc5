"""The invariants of semantics 11.1 on recorded answers of a real Flink, look by look for more than a minute."""

from pathlib import Path

import msgspec
import pytest
from wmtop.engine.feed.messages import SnapshotLine, snapshot_of_line

from tests.one_truth import check_all

from .golden import Driver, unpack
from .test_golden import FLINK_JOBS, first_answer_ms

LOOKS = range(110)


@pytest.mark.parametrize("job", FLINK_JOBS)
def test_no_look_at_a_flink_job_contradicts_itself(job: str, tmp_path: Path) -> None:
    unpack(tmp_path)
    answers = tmp_path / "flink" / f"{job}.jsonl"
    with Driver(tmp_path) as driver:
        followed = driver.wmtop(
            "follow", f"flink://jobmanager:8081/{job}", *LOOKS, now_ms=first_answer_ms(answers), answers=str(answers)
        )
    seen = check_all(snapshot_of_line(msgspec.convert(line, SnapshotLine)) for line in followed["json"])
    assert sum(seen.values()) > 1
    assert seen["stalled"] or job not in ("stuck", "twins")
