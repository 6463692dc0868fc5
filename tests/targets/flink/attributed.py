"""The attribution of samples made by hand."""

from collections.abc import Mapping

from wmtop.engine.snapshot import Snapshot, SourceView
from wmtop.engine.targets.flink.attribution import Attribution, attribution_of, snapshot_of
from wmtop.engine.targets.flink.evidence import evidence_of
from wmtop.engine.targets.flink.facts import Delay, FlinkFacts, Moment
from wmtop.engine.targets.flink.samples import Graph, Job, Sample, Unread
from wmtop.engine.watermarks.settings import Settings


def attributed(
    now: Sample, before: Sample | None = None, *, operator: str | None = None,
    delays: Mapping[str, Delay] = {}, unread: Mapping[tuple[str, str], Unread] | None = None,
    read_ms: Mapping[tuple[str, str], tuple[int, int]] = {},
) -> Attribution:  # fmt: skip
    """The attribution of the operator; the job has just started."""
    facts = FlinkFacts(
        graph=Graph(Job("1", "orders", "RUNNING", 0), 0, tuple(vertex.vertex for vertex in now.vertices)),
        answered_ms=0,
        samples=(now,) if before is None else (before, now),
        delays=dict(delays),
        read_ms=dict(read_ms),
        unread=None if unread is None else dict(unread),
    )
    evidence = evidence_of(Moment(facts=facts, operator=operator, now_ms=0))
    assert evidence is not None
    return attribution_of(evidence)


def attributed_by(samples: tuple[Sample, ...]) -> Attribution:
    """The attribution by several samples, the newest last."""
    graph = Graph(Job("1", "orders", "RUNNING", 0), 0, tuple(vertex.vertex for vertex in samples[-1].vertices))
    facts = FlinkFacts(graph=graph, answered_ms=0, samples=samples)
    evidence = evidence_of(Moment(facts=facts, operator=None, now_ms=0))
    assert evidence is not None
    return attribution_of(evidence)


def snapshot(
    facts: FlinkFacts, now_ms: int, *, operator: str | None = None, before: Snapshot | None = None
) -> Snapshot:
    """The snapshot of the facts when this machine's clock shows `now_ms`."""
    moment = Moment(facts=facts, operator=operator, now_ms=now_ms)
    evidence = evidence_of(moment)
    attribution = None if evidence is None else attribution_of(evidence)
    source, settings = SourceView("flink", "orders"), Settings(strategy="source")
    return snapshot_of(moment, attribution, name="orders", source=source, settings=settings, before=before)
