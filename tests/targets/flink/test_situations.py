"""One real Flink with several jobs: which is meant, a stuck one, an aligned one, one that ends, one that is cancelled;
by the command as a process, and by the watch. What is said is compared with what REST answers."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.doctor import diagnose
from wmtop.engine.feed import run_directory

from .flinks import BASE_MS, Flink, Watching, until

ENDED_MS = BASE_MS + 2_999


@pytest.fixture(scope="module", autouse=True)
def own_run_directory() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(run_directory.RUN_DIR_VARIABLE, f"/tmp/wmtop-test-{os.getpid()}")
        yield


@pytest.fixture(scope="module", autouse=True)
def all_have_sent(flink: Flink) -> None:
    """`keeper` keeps the cluster, `stuck` has no idle timeout, `aligned` pauses, `finite` ends."""
    for split in ("in-0", "in-1", "al-0", "al-1", "fin-0", "fin-1"):
        flink.write(split, 1, 2, 3)


def wmtop(*arguments: str, timeout_s: float = 100) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "wmtop.tui.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)


def target(flink: Flink, job: str = "") -> str:
    return flink.url.replace("http://", "flink://") + (f"/{job}" if job else "")


def test_several_jobs_are_listed_with_exit_2(flink: Flink) -> None:
    for job in ("", "no-such-job"):
        found = wmtop("attach", target(flink, job), "--once", "--json")
        assert found.returncode == 2
        assert "Traceback" not in found.stderr
        assert all(flink.job(name) in found.stderr for name in ("named", "ending", "spare", "bare"))


def test_one_look_as_a_process_is_what_rest_answers(flink: Flink) -> None:
    until(lambda: flink.level("stuck") == ENDED_MS, "both splits have sent")

    def look() -> Any:
        found = wmtop("attach", target(flink, "stuck"), "--once", "--json")
        assert found.returncode == 0, found.stderr
        return json.loads(found.stdout)

    until(lambda: look()["level"]["watermark_ms"] == ENDED_MS, "one look sees it")
    snapshot = look()
    assert snapshot["flink"]["id"] == flink.job("stuck")
    assert {one["channel"] for one in snapshot["channels"]} == {"in-0", "in-1"}
    unknown = (snapshot["windows"]["fired"], snapshot["settings"]["lateness_ms"], snapshot["settings"]["idle_after_ms"])
    assert unknown == (None, None, None)
    assert snapshot["flink"]["interval_ms"] == 1_000, "as the test's Flink is configured"
    assert 0 <= snapshot["flink"]["clock_ms"] - snapshot["flink"]["sampled_ms"] < 15_000


def test_a_stuck_job_is_stalled_by_the_split_that_lags_and_a_recording_says_the_same(
    flink: Flink, tmp_path: Path
) -> None:
    recording = tmp_path / "stuck.wmtop"
    command = [sys.executable, "-m", "wmtop.tui.cli", "attach", target(flink, "stuck"), "--json", "--headless"]
    watch = subprocess.Popen(
        [*command, "--verdict-after", "5s", "--record", str(recording)], stdout=subprocess.PIPE, text=True
    )
    assert watch.stdout is not None
    snapshot: Any = None
    second = 10
    try:
        for line in islice(watch.stdout, 120):
            snapshot = json.loads(line)
            second += 1
            flink.write("in-0", second)
            if snapshot["verdict"]["verdict"] == "stalled" and snapshot["level"]["holder"]["cause"] == "stuck":
                break
    finally:
        watch.send_signal(signal.SIGINT)
        rest = watch.communicate(timeout=30)[0].splitlines()
    # A file's split has no offset: that it has no data is not known, only that its watermark does not move.
    assert snapshot["level"]["holder"]["cause"] == "stuck"
    assert snapshot["verdict"]["reason"]["channels"] == ["in-1"]
    assert [one["channels"] for one in snapshot["blockers"]] == [["in-1"]]
    assert snapshot["blockers"][0]["gain_ms"] > 0
    assert (snapshot["level"]["watermark_ms"], snapshot["level"]["holder"]["channel"]) == (ENDED_MS, "in-1")
    assert flink.level("stuck") == ENDED_MS
    last = json.loads(rest[-1]) if rest else snapshot
    replayed = wmtop("replay", str(recording), "--once", "--json")
    assert replayed.returncode == 0, replayed.stderr
    assert json.loads(replayed.stdout)["level"] == last["level"]


def test_check_of_a_stuck_job_is_no_all_clear(flink: Flink) -> None:
    found = wmtop("check", target(flink, "stuck"), "--json", "--for", "6s")
    answer = json.loads(found.stdout)
    assert found.returncode in (1, 3), found.stdout
    assert answer["verdict"] in ("stalled", "unknown")
    assert wmtop("check", target(flink, "stuck"), "--json", "--group", "g").returncode == 2


def test_a_split_that_alignment_pauses_is_not_blamed(flink: Flink) -> None:
    watching = Watching(flink.url, "aligned")
    watching.see(lambda s: s.level.watermark_ms == ENDED_MS, "both have sent")
    seen_second, held_back, pauses = [10], set[bool](), list[list[tuple[str, ...]]]()

    def write(snapshot: Any) -> bool:
        seen_second[0] += 20
        flink.write("al-0", seen_second[0])
        flink.write("al-1", 3 + seen_second[0] / 1_000)
        fast = next(one for one in snapshot.channels if one.channel == "al-0")
        held_back.add(next(one.held_back for one in snapshot.channels if one.channel == "al-1"))
        pauses.append([one.channels for one in diagnose(snapshot, []) if one.code == "alignment-pauses"])
        return snapshot.level.holder.channel == "al-1" and (fast.watermark_ms or 0) > BASE_MS + 20_000

    seen = watching.see(write, "al-1 holds back the watermark")
    assert seen.level.holder.cause in ("behind", "stuck", "slow_reader")  # the last where the machine is busy
    assert [one.channels for one in seen.blockers] == [["al-1"]]
    paused = watching.see(lambda s: write(s) and any(one.held_back for one in s.channels), "al-0 is paused")
    assert [one.channel for one in paused.channels if one.held_back] == ["al-0"]
    assert held_back == {False}  # the slowest is past the limit at times, too, and reads on
    assert pauses[-1] == [("al-0",)]
    assert [] in pauses
    [found] = [one for one in diagnose(paused, []) if one.code == "alignment-pauses"]
    assert found.impact == "Read no faster than al-1"
    assert seen.verdict.verdict in ("unknown", "moving", "slow", "stalled")


def test_a_job_whose_splits_end_has_ended(flink: Flink) -> None:
    watching = Watching(flink.url, "finite")
    watching.see(lambda s: s.level.watermark_ms == ENDED_MS, "both have sent")
    flink.append("fin-0", "END")
    flink.append("fin-1", "END")
    seen = watching.see(lambda s: s.state == "ended", "the job has finished")
    assert seen.job.state == "FINISHED"
    assert seen.verdict.verdict == "ended"
    assert seen.level.holder is None
    assert not seen.blockers


def test_a_job_that_is_cancelled_while_it_is_watched_has_ended(flink: Flink) -> None:
    watching = Watching(flink.url, "stuck")
    watching.see(lambda s: s.level.watermark_ms is not None, "it runs")
    flink.cancel("stuck")
    seen = watching.see(lambda s: s.job.state == "CANCELED", "it is cancelled")
    assert (seen.state, seen.verdict.verdict) == ("ended", "ended")
    assert seen.level.holder is None
    found = wmtop("attach", target(flink, "stuck"), "--once", "--json")
    assert json.loads(found.stdout)["state"] == "ended"


def test_a_jobmanager_that_comes_back_is_watched_again(flink: Flink, class_path: str, tmp_path: Path) -> None:
    watching = Watching(flink.url, "keeper")
    flink.write("keep-0", 1)
    flink.write("keep-1", 1)
    before = watching.see(lambda s: s.level.watermark_ms is not None, "it runs").job.id
    flink.process.kill()
    flink.process.wait()
    seen = watching.see(lambda s: s.state == "stale", "nobody answers")
    assert seen.error is not None
    assert seen.verdict.verdict == "unknown"
    port = int(flink.url.rpartition(":")[2])
    with Flink(class_path, tmp_path, port, names="keeper", splits=2, parallelism=1) as again:
        again.wait_for("RUNNING")
        again.write("in-0", 50)
        again.write("in-1", 60)
        seen = watching.see(lambda s: s.state == "live" and s.level.watermark_ms == BASE_MS + 49_999, "it is back")
    assert seen.job.id != before
