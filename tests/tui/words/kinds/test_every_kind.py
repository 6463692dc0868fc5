"""Every kind of target, in every state: a line on the wire brings it back as what it was, and all words can be made."""

from typing import get_args

import msgspec
import pytest
from msgspec import UNSET
from msgspec.structs import replace
from wmtop.engine.doctor import diagnose
from wmtop.engine.feed.messages import SnapshotLine, decode_from_engine, encode_line, line_of, snapshot_of_line
from wmtop.engine.snapshot import PARTS, EngineState, Other, Snapshot, TargetKind, TargetPart
from wmtop.engine.verdict.history import history_point
from wmtop.tui.words.channels import Sort
from wmtop.tui.words.check import check_input, facts_of
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.metrics import METRICS
from wmtop.tui.words.spans import lay
from wmtop.tui.words.state import condition
from wmtop.tui.words.status_line import status_parts
from wmtop.tui.words.summary import summary

from .test_presenter import OF

STATES: tuple[EngineState, ...] = get_args(EngineState)
CASES = [(part, state) for part in OF for state in STATES]


def snapshot_in(part: type[TargetPart], state: EngineState) -> Snapshot:
    """A snapshot of that kind in a state; while it starts, and after a failure, nothing is known of it."""
    snapshot = replace(OF[part], state=state, ended=state == "ended")
    if state in ("starting", "failed"):
        snapshot = Snapshot(
            name=snapshot.name, state=state, wall_ms=snapshot.wall_ms, settings=snapshot.settings,
            source=snapshot.source, target=snapshot.target, error="it is gone" if state == "failed" else None,
        )  # fmt: skip
    return snapshot


def test_the_table_of_kinds_is_whole() -> None:
    assert tuple(PARTS) == get_args(TargetKind)
    assert {*PARTS.values(), Other} == set(get_args(TargetPart)) == set(OF)
    assert {kind: OF[part].target.target_kind for kind, part in PARTS.items()} == {kind: kind for kind in PARTS}


@pytest.mark.parametrize(("part", "state"), CASES)
def test_a_line_brings_back_the_snapshot_as_its_kind(part: type[TargetPart], state: EngineState) -> None:
    snapshot = snapshot_in(part, state)
    found = decode_from_engine(encode_line(snapshot))
    assert isinstance(found, Snapshot)
    assert type(found.target) is part
    assert found == snapshot


@pytest.mark.parametrize(("part", "state"), CASES)
def test_there_are_words_for_it(part: type[TargetPart], state: EngineState) -> None:
    snapshot = snapshot_in(part, state)
    words, now = presenter_of(snapshot), condition(snapshot, frozen=False, silent_s=0.0, lost=None)
    assert now.word
    assert lay(status_parts(snapshot, now, None), 200)
    assert lay(words.tuning(None, None), 200)
    assert words.stages(None) is not None
    assert words.whole_identity() or part is PARTS["own"]
    assert summary(snapshot)
    point = history_point(snapshot)
    assert (point is None) == (snapshot.now_ms is None)
    assert all(finding.title and finding.cause for finding in diagnose(snapshot, []))


@pytest.mark.parametrize("part", OF)
def test_each_column_of_channels_has_its_order_and_the_time_stays_on_a_narrow_screen(part: type[TargetPart]) -> None:
    columns = presenter_of(OF[part]).channel_columns
    titles = [column.title for column in columns]
    assert len(set(titles)) == len(titles)
    assert {column.order for column in columns} <= set(get_args(Sort))
    time, *others = columns
    assert time.title in ("watermark", "stream time", "event time")
    assert time.order == "behind"
    assert all(column.rank != 1 for column in others)  # the time is the last to go, after all with a rank
    assert all(column.rank == 0 for column in others if column.title == "state")


@pytest.mark.parametrize("part", OF)
def test_why_there_is_no_advice_fits_the_kind(part: type[TargetPart]) -> None:
    said = "\n".join(presenter_of(OF[part]).no_advice("orders", "kafka://b:9092/orders", recorded=False))
    in_job, by_reading = "publish(spark)" in said, "wmtop run kafka" in said
    assert said.startswith("orders: ")
    assert (in_job and by_reading) is False
    assert in_job is (part is PARTS["spark"]) or part in (Other, PARTS["chain"])
    recorded = "\n".join(presenter_of(OF[part]).no_advice("orders", "orders.rec", recorded=True))
    assert ("wmtop run kafka BOOTSTRAP TOPIC" in recorded) is by_reading  # a file is no address of a topic
    assert by_reading is (part in (PARTS["flink"], PARTS["topic"], PARTS["group"], PARTS["kafka_streams"]))


def test_only_facts_that_no_table_names_are_called_other() -> None:
    """A chain's loss has its name in the table of facts; a plug-in's facts have names of their own."""
    [metric] = [metric for metric in METRICS if metric.name == "other_fact"]
    found = {part: list(metric.take(check_input(OF[part], [], None))) for part in OF}
    assert found.pop(Other) == [(("gauges.spread",), 7)]
    assert not any(found.values())
    assert facts_of(check_input(OF[PARTS["chain"]], [], None))["chain.behind"] == 3_600_000


@pytest.mark.parametrize("part", [part for part in OF if part is not PARTS["own"]])
def test_a_target_that_another_program_runs_is_never_an_own_run(part: type[TargetPart]) -> None:
    """Also while nothing of it is known: `wmtop run` would not start it again."""
    for state in ("starting", "failed"):
        snapshot = snapshot_in(part, state)
        assert snapshot.is_attached
        assert not any("wmtop run" in fix.text for finding in diagnose(snapshot, []) for fix in finding.fixes)


def test_an_unknown_kind_is_refused() -> None:
    line = encode_line(OF[PARTS["topic"]]).replace(b'"target_kind":"topic"', b'"target_kind":"unheard of"')
    with pytest.raises(msgspec.DecodeError, match="'unheard of'"):
        decode_from_engine(line)


@pytest.mark.parametrize(
    ("kind", "field", "without"),
    [("flink", "flink", None), ("chain", "chain", UNSET), ("kafka_streams", "streams", UNSET)],
)
def test_a_kind_without_its_part_is_refused(kind: TargetKind, field: str, without: object) -> None:
    line = replace(line_of(OF[PARTS[kind]]), **{field: without})
    with pytest.raises(msgspec.DecodeError, match=f"'{field}'"):
        snapshot_of_line(line)


@pytest.mark.parametrize("part", OF)
def test_a_line_from_before_kinds_were_named_is_known_by_its_parts(part: type[TargetPart]) -> None:
    snapshot = OF[part]
    old: SnapshotLine = replace(line_of(snapshot), target_kind=UNSET)
    assert snapshot_of_line(old) == snapshot
