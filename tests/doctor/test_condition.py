"""Rules about the engine and its snapshots: what is incomplete is never an all-clear."""

from datetime import UTC

import pytest
from wmtop.engine.doctor import explain
from wmtop.engine.snapshot import EngineState, Note, Snapshot
from wmtop.engine.text.formatting import stamp

from tests.snapshots import replace

from .patients import NOW, found, healthy
from .streams import KAFKA, MINUTE, SETTINGS, Stream, traffic


def without_channels(state: EngineState) -> Snapshot:
    """What a viewer gets of a snapshot that was too long to send."""
    args: dict[str, str | int | None] = {"channels": 20_000, "bytes": 70_000_000, "limit": 64_000_000}
    note = Note(NOW, "snapshot_too_long", args)
    return replace(healthy([]), state=state, notes=[note], ended=state == "ended")


@pytest.mark.parametrize("state", ["partial", "paused", "ended", "failed"])
def test_a_snapshot_without_its_channels_is_not_an_all_clear(state: EngineState) -> None:
    finding = found(without_channels(state))["partly-unknown"]
    assert (finding.severity, finding.size, finding.evidence) == ("warning", 20_000, ["20,000 channels left out"])
    assert [fix.code for fix in finding.fixes] == ["lower-max-channels"]


def test_a_partial_snapshot_of_a_query() -> None:
    finding = found(replace(healthy([]), state="partial"))["partly-unknown"]
    assert (finding.severity, finding.title) == ("info", "Part of the picture is unknown")
    assert [fix.code for fix in finding.fixes] == ["check-source"]


def test_a_jvm_that_does_not_answer_is_not_blamed_on_the_source() -> None:
    """The engine is stale in both cases; its note says which."""
    stale = replace(healthy([]), state="stale")
    assert "source-unreachable" in found(stale)
    hung = found(replace(stale, notes=[Note(NOW, "jvm_silent", {"pid": 7, "silent_ms": 25_000})]))
    assert "source-unreachable" not in hung
    silent = hung["engine-silent"]
    assert silent.code == "engine-silent"
    assert (silent.title, silent.size) == ("The engine's JVM does not answer", 25_000)


def test_a_source_that_does_not_answer_was_live_when_it_last_answered() -> None:
    """Its snapshots come once a second all the same: the newest is always of now."""
    stream = Stream().run(60, traffic("abcd"))
    last, stream.state = stream.wall, "stale"
    assert stream.wait(2 * MINUTE).wall == last + 2 * MINUTE
    evidence = explain(stream.findings()[0], stream.snapshot, UTC).evidence
    assert evidence[-1] == f"Last live snapshot: {stamp(last, UTC)}"
    first_look = replace(healthy([]), state="stale")
    assert explain(found(first_look)["source-unreachable"], first_look, UTC).evidence == [
        f"Source: {KAFKA.description}"
    ]


def test_a_directory_that_is_away_is_named_and_may_come_back() -> None:
    args = {"directory": "/in", "why": "No such file or directory"}
    lost = [Note(NOW - number * MINUTE, "directory_lost", {**args}) for number in (9, 1)]
    stale = replace(healthy([]), state="stale", notes=lost)
    finding = found(stale)["source-unreachable"]
    assert (finding.severity, [fix.code for fix in finding.fixes]) == ("warning", ["check-directory"])
    assert explain(finding, stale, UTC).evidence[0] == f"Lost: {stamp(NOW - MINUTE, UTC)}"
    assert "/in: No such file or directory" in explain(finding, stale, UTC).cause
    assert "source-unreachable" not in found(replace(stale, state="live"))


def test_a_broker_that_is_silent_is_named_beside_the_query() -> None:
    """From here it is not known whether the query reaches it: both are said."""
    silent = Note(NOW, "broker_silent", {"why": "no Kafka broker answers at b:9092"})
    query = replace(healthy([]), origin={"level": "checkpoint"}, notes=[silent], batch=7)
    partial = found(replace(query, state="partial"))
    assert partial["source-unreachable"].severity == "warning"
    assert "partly-unknown" not in partial
    stale = found(replace(query, state="stale"))["query-stale"]
    assert stale.code == "query-stale"
    assert stale.evidence[-1] == "no Kafka broker answers at b:9092"
    assert [fix.code for fix in stale.fixes] == ["check-source", "check-query"]
    gone = found(replace(query, state="stale", notes=[Note(NOW, "application_gone", {}), silent]))["query-stale"]
    assert gone.code == "query-stale"
    assert (gone.title, gone.evidence[-1]) == ("The query's application has ended", None)


def test_what_makes_the_verdict_unknown_comes_first() -> None:
    stream = Stream(replace(SETTINGS, idle_after_ms=None)).run(60, traffic("abcd")).run(900, traffic("ab"))
    assert [one.code for one in stream.findings(silent_ms=60_000)][:1] == ["silent-channels"], "its verdict is known"
    stream.state = "stale"
    stream.publish()
    assert [one.code for one in stream.findings()] == ["source-unreachable", "silent-channels"]
