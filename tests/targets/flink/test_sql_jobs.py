"""Real Flink jobs that drop late records or hold rows, each in its own way: 3 late records are the truth, or what
REST's own numbers are.
"""

import time
from collections.abc import Iterator

import pytest
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.targets.flink.rest import RestSecurity
from wmtop.engine.targets.flink.watch import FlinkWatch

from .conftest import free_port
from .flinks import BASE_MS, FLINK_VERSION, Flink, Watching, compiled, until

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.skipif(
        not FLINK_VERSION.startswith("2.3"), reason="ON CONFLICT and functions with ORDER BY are of 2.3"
    ),
]
SEVERAL = "grouped_twophase_ranked_over_first_joined"
COUNTED = ("onetask", SEVERAL, "hopping", "matched")
UNCOUNTED = ("aside", "paired", "interval", "sorted", "function", "temporal")
SINKS = ("nothing", "deduplicate")
ON_TIME = (1, 5, 9, 61, 65, 125, 185, 245, 601)
LATE = (2, 3, 4)
LEVEL_MS = BASE_MS + 600_999


@pytest.fixture(scope="module")
def sql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    """Jobs that have read 3 records after the watermark passed them by minutes."""
    jobs, directory = [*COUNTED, *UNCOUNTED, *SINKS, "lookup"], tmp_path_factory.mktemp("sql")
    class_path = compiled(tmp_path_factory.mktemp("classes"), sql=True)
    options: dict[str, object] = {"names": ",".join(jobs), "slots": 20}
    with Flink(class_path, directory, free_port(), main="SqlJob", heap="900m", **options) as flink:
        for job in jobs:
            flink.wait_for("RUNNING", job)
            flink.write(f"{job}-0", *ON_TIME)
        for job in jobs[:-1]:
            until(lambda job=job: look(flink, job).level.watermark_ms == LEVEL_MS, f"{job} has read")
            flink.write(f"{job}-0", *LATE)
        yield flink


def look(flink: Flink, job: str) -> Snapshot:
    watch = FlinkWatch(flink.url, job, None, RestSecurity())
    watch.open()
    try:
        return watch.picture(job, watch.look(), time.time_ns() // 1_000_000).snapshot
    finally:
        watch.close()


def values(flink: Flink, job: str, vertex: str, metric: str) -> list[int]:
    """The values that REST has of a metric of all operators of a vertex."""
    path = f"/jobs/{flink.job(job)}/vertices/{vertex}/metrics"
    names = [one["id"] for one in flink.get(path) if one["id"].endswith(metric)]
    return [int(flink.get(f"{path}?get={name.replace('[', '%5B').replace(']', '%5D')}")[0]["value"]) for name in names]


@pytest.mark.parametrize("job", COUNTED)
def test_three_late_records_are_three_however_often_they_are_counted(sql: Flink, job: str) -> None:
    until(lambda: look(sql, job).totals.late not in (0, 1, 2, None), "they are counted")
    seen = look(sql, job)
    assert seen.totals.late == len(LATE)
    assert seen.job.late_at_least == (job not in ("onetask", "matched"))
    counted = sum(sum(values(sql, job, one.id, "umLateRecordsDropped")) for one in seen.job.vertices)
    assert counted == {"onetask": 3, "hopping": 15}.get(job, counted)
    assert counted > 15 or job != SEVERAL


@pytest.mark.parametrize("job", UNCOUNTED)
def test_late_records_that_nothing_counts_are_not_known(sql: Flink, job: str) -> None:
    until(lambda: sum(read_of(sql, job)) >= len(ON_TIME) + len(LATE), "they are read")
    seen = look(sql, job)
    assert seen.totals.late is None
    assert [one.late for one in seen.job.vertices if one.late_at_least] == [None]


def read_of(flink: Flink, job: str) -> list[int]:
    [source, *_] = flink.get(f"/jobs/{flink.job(job)}")["vertices"]
    return values(flink, job, source["id"], f"Source_{job}.numRecordsOut") or [0]


def test_a_job_of_one_task_has_a_level_and_a_holder(sql: Flink) -> None:
    seen = look(sql, "onetask")
    [task] = seen.job.vertices
    assert values(sql, "onetask", task.id, "Per_minute.currentInputWatermark") == [LEVEL_MS]
    assert (seen.level.watermark_ms, seen.job.operator) == (LEVEL_MS, task.id)
    assert [(one.channel, one.watermark_ms, one.state) for one in seen.channels] == [("onetask-0", LEVEL_MS, "active")]
    assert seen.level.holder is not None
    assert seen.level.holder.channel == "onetask-0"


@pytest.mark.parametrize(("job", "waits"), [("nothing", True), ("deduplicate", False)])
def test_an_upsert_sink_waits_if_it_compacts_by_watermark(sql: Flink, job: str, waits: bool) -> None:
    seen = look(sql, job)
    sink = next(one for one in seen.job.vertices if "SinkMaterializer" in one.name)
    assert sink.windowed == waits
    assert seen.windows.unknown == ("sink_waits" if waits else "not_in_rest")
    assert (seen.job.operator == sink.id) or not waits

    def written() -> int:
        return values(sql, job, sink.id, "Writer.numRecordsIn")[0]

    before = written()
    sql.write(f"{job}-0", 602)  # the greatest of its key: the row before it goes out, its own when time has passed it
    until(lambda: sum(read_of(sql, job)) > len(ON_TIME) + len(LATE), "it is read")
    held = look(sql, job)
    assert held.level.watermark_ms == LEVEL_MS + 1_000
    until(lambda: written() > before, "rows go out")


@pytest.mark.parametrize(("job", "operator"), [("temporal", "TemporalJoin"), ("matched", "Match"), ("sorted", "Sort")])
def test_an_operator_that_holds_rows_until_the_watermark_is_one_that_waits(sql: Flink, job: str, operator: str) -> None:
    seen = look(sql, job)
    waits = [one for one in seen.job.vertices if one.windowed]
    assert [operator in one.name for one in waits] == [True]
    assert seen.job.operator == waits[0].id
    assert seen.level.watermark_ms == LEVEL_MS


def test_an_interval_join_sends_its_watermark_later_by_its_bound(sql: Flink) -> None:
    seen = look(sql, "interval")
    assert {one.name.partition("[")[0]: one.delay_ms for one in seen.job.vertices if one.inputs} == {
        "IntervalJoin": 10_000
    }


def test_a_lookup_without_an_answer_keeps_the_watermark_back(sql: Flink) -> None:
    """Its source has sent later records; the watermark is one before the first without an answer, or there is none."""
    watching = Watching(sql.url, "lookup")
    seen = watching.see(lambda s: s.level.holder is not None and s.level.holder.cause == "kept_back", "it is named")
    assert seen.level.watermark_ms in (None, *(BASE_MS + 1_000 * second - 1 for second in ON_TIME[:3]))
    assert seen.job.held_in == seen.job.vertices[0].id
    assert "Lookup" in seen.job.vertices[0].name
