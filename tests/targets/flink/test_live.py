"""A real Flink job, watched: what the picture says is compared with what REST answers before and after."""

import time
from itertools import count
from urllib.parse import quote

import pytest
from wmtop.engine.doctor import diagnose
from wmtop.engine.watermarks.times import MAX

from tests.snapshots import replace

from .conftest import JOBS, StartFlink
from .flinks import BASE_MS, Flink, Watching


def states(snapshot) -> dict[str, str]:
    return {one.channel: one.state for one in snapshot.channels}


def watermarks(snapshot) -> dict[str, int | None]:
    return {one.channel: one.watermark_ms for one in snapshot.channels}


def test_a_lagging_split_holds_and_then_is_idle(flink: Flink) -> None:
    """Three splits in two subtasks; the third lags. Idle after 4 s."""
    watching = Watching(flink.url, "lagging")
    for second in (1, 2, 3):  # all of them first: an empty split makes its whole subtask idle once
        for split in ("lag-0", "lag-1", "lag-2"):
            flink.write(split, second)
    watching.see(lambda s: s.level.watermark_ms == BASE_MS + 2_999, "all three have sent 3 s")

    def go_on(snapshot) -> bool:
        go_on.second += 1
        flink.write("lag-0", 600 + go_on.second)
        flink.write("lag-1", 500 + go_on.second)
        flink.write("lag-2", 60 + go_on.second / 1000)  # it still sends, but far behind
        holder = snapshot.level.holder
        # On a busy machine a write may be so late that the split is idle for a while, or stuck between two samples;
        # the source may even be what is slow.
        sends = holder is not None and holder.channel == "lag-2" and holder.cause in ("behind", "slow_reader")
        return (
            sends and set(states(snapshot).values()) == {"active"} and watermarks(snapshot)["lag-0"] > BASE_MS + 600_000
        )

    go_on.second = 0
    before = flink.level("lagging")
    snapshot = watching.see(go_on, "lag-2 holds")
    after = flink.level("lagging")
    assert before <= snapshot.level.watermark_ms <= after
    assert snapshot.level.watermark_ms <= watermarks(snapshot)["lag-2"]
    assert states(snapshot) == {"lag-0": "active", "lag-1": "active", "lag-2": "active"}
    assert [one.channels for one in snapshot.instances] == [2, 1]

    def without_it(snapshot) -> bool:
        without_it.second += 1
        flink.write("lag-0", 700 + without_it.second)
        flink.write("lag-1", 600 + without_it.second)
        # A dump is not taken at one moment: the split may be idle in it before its subtask has moved on.
        return states(snapshot)["lag-2"] == "idle" and snapshot.level.watermark_ms > BASE_MS + 500_000

    without_it.second = 0
    snapshot = watching.see(without_it, "lag-2 is idle")
    assert snapshot.level.holder.channel != "lag-2"
    assert snapshot.level.watermark_ms <= flink.level("lagging")

    flink.write("lag-2", 61)  # late now: its window has fired long ago
    snapshot = watching.see(lambda s: s.totals.late, "the record is dropped as late")
    assert snapshot.totals.late == 1


def test_a_failure_restarts_the_job_and_keeps_its_counts(flink: Flink) -> None:
    watching = Watching(flink.url, "lagging")
    watching.see(lambda s: s.totals.late == 1, "one is late")
    flink.append("lag-1", "FAIL")
    snapshot = watching.see(lambda s: s.state == "stale", "the job restarts")
    assert "the test asked for this failure" in snapshot.error
    assert (snapshot.level.holder, snapshot.blockers) == (None, None)
    assert snapshot.verdict.verdict == "unknown"
    # Without checkpoints the files are read again from the start, with FAIL in them: it fails for good.
    assert snapshot.job.state in ("RESTARTING", "FAILING")
    snapshot = watching.see(lambda s: (s.job.restarts or 0) >= 1, "the restart is counted")
    assert snapshot.totals.late >= 1
    assert any(one.late_at_least for one in snapshot.job.vertices)


def test_a_split_that_never_sent_holds_without_an_idle_timeout(flink: Flink) -> None:
    for split in ("left-0", "left-1", "right-0"):
        flink.write(split, 1, 2, 3)
    watching = Watching(flink.url, "twins")
    seen = watching.see(
        lambda s: len(s.channels) == 4 and sum(mark is not None for mark in watermarks(s).values()) == 3,
        "three splits have sent",
    )
    assert states(seen)["right-1"] == "never_seen"
    assert seen.level.watermark_ms is None
    assert seen.level.holder.channel == "right-1"
    assert seen.level.holder.cause == "never_seen"
    flink.write("right-1", 100)
    seen = watching.see(lambda s: s.level.watermark_ms is not None, "all have sent")
    assert seen.level.watermark_ms == BASE_MS + 2_999 == flink.level("twins")
    assert len(seen.instances or seen.channels) == 4
    second = Watching(flink.url, "twins", operator="second")
    seen = second.see(lambda s: s.channels, "the second window's inputs")
    assert {one.channel for one in seen.channels} == {"left-0", "left-1", "right-0", "right-1"}
    assert seen.level.holder.channel != "right-1"
    assert seen.job.operator != watching.watch.picture("x", watching.facts, 0).snapshot.job.operator


def test_a_source_subtask_without_a_split_holds(flink: Flink) -> None:
    flink.write("spare-0", 1, 2, 3)
    watching = Watching(flink.url, "spare")
    seen = watching.see(lambda s: s.level.holder is not None and s.level.holder.cause == "no_split", "it is named")
    assert (seen.level.watermark_ms, seen.level.holder.channel) == (None, "#1")


def test_a_source_that_has_ended_beside_one_that_runs(flink: Flink) -> None:
    """The first task of the plan is FINISHED; the job is watched on, and the other source sets its watermark."""
    for split in ("past-0", "past-1", "now-0", "now-1"):
        flink.write(split, 1)
    for split in ("past-0", "past-1"):
        flink.append(split, "END")
    watching, seconds = Watching(flink.url, "halves"), count(2)

    def runs_on(snapshot) -> bool:
        flink.write("now-0", *(second := [next(seconds)]))
        flink.write("now-1", *second)
        statuses = [one.status for one in snapshot.job.vertices if one.name == "Source: Source past"]
        return statuses == ["FINISHED"] and (snapshot.level.watermark_ms or 0) > BASE_MS + 6_000

    seen = watching.see(runs_on, "the watermark advances although the first task has ended")
    assert list(states(seen).values()).count("finished") == 1
    assert seen.state == "live"


def test_an_idle_split_of_a_job_without_windows_is_named(flink: Flink) -> None:
    """A map on its own split only: its subtask stands with the split, so no records wait before the map."""
    for split in ("plain-0", "plain-1"):
        flink.write(split, 1, 2, 3)
    watching, seconds = Watching(flink.url, "plain"), count(4)
    causes = set[str | None]()

    def is_idle(snapshot) -> bool:
        flink.write("plain-0", next(seconds))
        if (watermarks(snapshot).get("plain-0") or 0) > BASE_MS + 6_000:
            causes.add(snapshot.level.holder.cause if snapshot.level.holder is not None else None)
        return states(snapshot).get("plain-1") == "idle" and snapshot.level.holder is not None

    seen = watching.see(is_idle, "it is idle, and holds back the watermark")
    assert (seen.level.holder.channel, seen.level.holder.cause) == ("plain-1", "quiet")
    assert seen.level.watermark_ms == BASE_MS + 2_999
    assert "in_flight" not in causes


@pytest.mark.parametrize(("job", "splits", "quiet"), [("spread", 2, 1), ("gathered", 4, 2)])
def test_idle_inputs_hold_back_the_subtask_that_has_no_others(flink: Flink, job: str, splits: int, quiet: int) -> None:
    """After `rescale` a subtask reads only some; which of several idle ones is not named, nor is anything else."""
    name = str(JOBS[job]["sources"])
    for split in range(splits):
        flink.write(f"{name}-{split}", 3)
    watching, seconds = Watching(flink.url, job), count(4)
    causes = set[str | None]()

    def is_ahead(snapshot) -> bool:
        second = next(seconds)
        for split in range(quiet, splits):
            flink.write(f"{name}-{split}", second)
        if second > 12:
            causes.add(snapshot.level.holder.cause if snapshot.level.holder is not None else None)
        idle = [split for split, state in states(snapshot).items() if state == "idle"]
        return second > 30 and idle == [f"{name}-{split}" for split in range(quiet)]

    seen = watching.see(is_ahead, "they are idle, and the others are ahead")
    assert seen.level.watermark_ms == BASE_MS + 2_999
    assert "in_flight" not in causes
    if quiet == 1:
        seen = watching.see(lambda s: s.level.holder is not None and s.level.holder.cause == "quiet", "it is named")
        assert seen.level.holder.channel == f"{name}-0"


def test_a_task_may_assign_watermarks_under_a_name_of_its_own(flink: Flink) -> None:
    """While no record comes out of it, it is not said that the source needs a watermark strategy."""
    watching, causes = Watching(flink.url, "named"), set[str | None]()
    flink.write("named-0", 1, 3, 5)

    def has_read(snapshot) -> bool:
        causes.add(snapshot.level.holder.cause if snapshot.level.holder is not None else None)
        return bool(snapshot.job.vertices[0].taken_per_second)

    watching.see(has_read, "they are read")
    assert "no_watermark" not in causes
    flink.write("named-0", 8)
    watching.see(lambda s: s.level.watermark_ms == BASE_MS + 7_999, "a record has come out of it")


def test_a_split_that_has_ended_holds_back_nothing(flink: Flink) -> None:
    """Flink's JobManager keeps its last metrics."""
    for split in ("end-0", "end-1"):
        flink.write(split, 3)
    watching = Watching(flink.url, "ending")
    watching.see(lambda s: s.level.watermark_ms == BASE_MS + 2_999, "both are read")
    flink.append("end-0", "END")
    flink.write("end-1", 60)
    seen = watching.see(lambda s: set(states(s)) == {"end-1"}, "the other one is left")
    assert seen.level.watermark_ms == BASE_MS + 59_999 == flink.level("ending")
    first = Watching(flink.url, "ending")
    seen = first.see(lambda s: s.level.holder is not None, "a channel is named")
    assert seen.level.holder.channel == "end-1"
    [source, _] = flink.get(f"/jobs/{flink.job('ending')}")["vertices"]
    names = flink.get(f"/jobs/{flink.job('ending')}/vertices/{source['id']}/metrics")
    assert any(".split.end-0." in one["id"] for one in names), "they are kept"


def test_no_metric_is_an_event_time(flink: Flink) -> None:
    """Of all of a job only watermarks are in the range of its records' times."""
    for split in ("end-0", "end-1"):
        flink.write(split, 61)
    Watching(flink.url, "ending").see(lambda s: s.level.watermark_ms is not None, "it has a watermark")
    path = f"/jobs/{flink.job('ending')}"
    near: set[str] = set()
    for vertex in flink.get(path)["vertices"]:
        metrics = f"{path}/vertices/{vertex['id']}/metrics"
        ids = [one["id"] for one in flink.get(metrics)]
        values = [
            one
            for at in range(0, len(ids), 40)
            for one in flink.get(f"{metrics}?get={quote(','.join(ids[at : at + 40]))}")
        ]
        numbers = {one["id"]: float(one["value"]) for one in values if one["value"].lstrip("-").isdigit()}
        near |= {id.rpartition(".")[2] for id, number in numbers.items() if abs(number - BASE_MS) < 3_600_000}
    assert near
    assert all("Watermark" in name for name in near), near


@pytest.mark.parametrize(("job", "notes"), [("bare", []), ("loose", ["windows_untimed"])])
def test_a_job_without_watermarks_has_none(flink: Flink, job: str, notes: list[str]) -> None:
    """Where it has no windows either, nothing waits."""
    flink.write(f"{job}-0", 1, 2)
    watching = Watching(flink.url, job)
    seen = watching.see(lambda s: s.level.holder is not None and s.level.holder.cause == "no_watermark", "it is named")
    assert (seen.level.watermark_ms, [one.code for one in seen.notes]) == (None, notes)
    old = replace(seen, target=replace(seen.job, running_ms=seen.job.running_ms - 60_000))
    severities = [one.severity for one in diagnose(old, []) if one.code == "source-without-watermark"]
    assert severities == ["info" if notes else "critical"]


def test_a_busy_operator_is_not_a_split_without_data(flink: Flink) -> None:
    """One slow vertex: what it has not worked off holds the windows back, and no split is said to be without data."""
    watching = Watching(flink.url, "busy")

    seconds = count(step=40)

    def is_busy(snapshot) -> bool:
        start = next(seconds)
        for split in ("slow-0", "slow-1"):
            flink.write(split, *range(start, start + 40))
        slow = next((one for one in snapshot.job.vertices if one.name.startswith("Slow map")), None)
        # Flink means the last minute, in most of which this job had nothing to do.
        return slow is not None and (slow.busy or 0) > 0.1

    seen = watching.see(
        lambda s: is_busy(s) and s.level.holder is not None and s.level.holder.cause == "in_flight", "records wait"
    )
    assert seen.level.holder.channel == "Slow map"
    assert not seen.blockers
    assert {one.state for one in seen.channels} == {"active"}


def test_count_windows_are_not_stalled_by_a_watermark_that_they_do_not_wait_for(flink: Flink) -> None:
    watching, seconds = Watching(flink.url, "counted"), count(1)
    flink.write("count-0", 1)

    def frozen(snapshot) -> bool:
        flink.write("count-1", next(seconds))
        moved = (watermarks(snapshot).get("count-1") or 0) > BASE_MS + 20_000
        return moved and snapshot.level.watermark_ms == BASE_MS + 999

    seen = watching.see(frozen, "the watermark stands while records come")
    for _ in range(12):  # longer than the horizon of the verdict, 5 s
        flink.write("count-1", next(seconds))
        time.sleep(0.5)
        seen = watching.see(lambda s: s.level.watermark_ms is not None, "it runs")
    assert (seen.verdict.verdict, [one.code for one in seen.notes]) == ("unknown", ["windows_untimed"])


def test_the_last_watermark_beside_idle_subtasks_is_not_the_end(flink: Flink) -> None:
    """One subtask has ended and the other is idle: Flink sends the windows the end of the stream."""
    watching = Watching(flink.url, "early")
    for split in ("early-0", "early-1"):
        flink.write(split, 1, 2, 3)
    watching.see(lambda s: s.level.watermark_ms == BASE_MS + 2_999, "both have sent")
    flink.append("early-0", "END")
    seen = watching.see(lambda s: s.level.watermark_ms is None, "the windows have the last watermark")
    assert flink.level("early") == MAX
    seen = watching.see(lambda s: bool(s.notes), "it is named")
    assert (seen.ended, seen.job.state, [one.code for one in seen.notes]) == (False, "RUNNING", ["ended_early"])
    assert seen.verdict.verdict == "unknown"
    assert [one.state for one in seen.channels].count("finished") == 1


def test_a_record_with_the_last_time_there_is_does_not_end_a_job_that_reads_on(flink: Flink) -> None:
    """Its window operator has the end of the stream, and drops all that comes."""
    watching, seconds = Watching(flink.url, "poisoned"), count(1)
    flink.write("poison-0", 0)
    watching.see(lambda s: s.level.watermark_ms is not None, "it has read")
    flink.append("poison-0", str(MAX))

    def reads_on(snapshot) -> bool:
        flink.write("poison-0", next(seconds))
        return bool(snapshot.notes) and bool(snapshot.totals.late)

    seen = watching.see(reads_on, "it is named")
    assert flink.level("poisoned") >= MAX - 1
    assert (seen.ended, seen.level.watermark_ms, [one.code for one in seen.notes]) == (False, None, ["ended_early"])
    assert (seen.verdict.verdict, seen.notes[0].args["more"]) == ("unknown", 0)


@pytest.mark.matrix
def test_a_job_with_128_subtasks(start_flink: StartFlink) -> None:
    """Every split is a channel; of the 128 the one that lags holds the windows back, as REST says before and after."""
    flink = start_flink(splits=128, parallelism=128, slots=130, fetch=2000)
    for split in range(128):
        flink.write(f"in-{split}", 3 if split == 77 else 10)
    watching = Watching(flink.url)

    def all_sent(snapshot) -> bool:  # of a subtask whose split is not reported yet only the number is known
        named = all(one.channel.startswith("in-") for one in snapshot.channels)
        return snapshot.level.watermark_ms is not None and named

    seen = watching.see(all_sent, "all 128 have sent")
    assert (len(seen.channels), seen.level.watermark_ms) == (128, BASE_MS + 2_999)
    assert (seen.level.holder.channel, flink.level()) == ("in-77", BASE_MS + 2_999)
    assert [one.channels for one in seen.blockers or ()][:1] == [["in-77"]]
    flink.write("in-77", 20)
    seen = watching.see(lambda s: s.level.watermark_ms == BASE_MS + 9_999, "the others hold it now")
    assert seen.level.holder.channel != "in-77"
    assert flink.level() == BASE_MS + 9_999
