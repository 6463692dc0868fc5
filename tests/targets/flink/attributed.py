"""The attribution of samples made by hand."""

from collections.abc import Mapping

from wmtop.engine.snapshot import Snapshot, SourceView
from wmtop.engine.targets.flink.attribution import Attribution, attribution_of, snapshot_of
from wmtop.engine.targets.flink.facts import FlinkFacts
from wmtop.engine.targets.flink.samples import Graph, JobSample, ListedJob, UnreadPartition


def attributed(
    now: JobSample, before: JobSample | None = None, *, operator: str | None = None,
    unread: Mapping[tuple[str, str], UnreadPartition] | None = None,
    read_ms: Mapping[tuple[str, str], tuple[int, int]] = {},
) -> Attribution:  # fmt: skip
    """The attribution of the operator; the job has just started."""
    facts = FlinkFacts(
        graph=Graph(ListedJob("1", "orders", "RUNNING", 0), 0, tuple(vertex.vertex for vertex in now.vertices)),
        answered_ms=0,
        operator=operator,
        samples=(now,) if before is None else (before, now),
        read_ms=dict(read_ms),
        unread=None if unread is None else dict(unread),
    )
    return attributed_from(facts)


def attributed_by(samples: tuple[JobSample, ...]) -> Attribution:
    """The attribution by several samples, the newest last."""
    graph = Graph(ListedJob("1", "orders", "RUNNING", 0), 0, tuple(vertex.vertex for vertex in samples[-1].vertices))
    return attributed_from(FlinkFacts(graph=graph, answered_ms=0, samples=samples))


def attributed_from(facts: FlinkFacts) -> Attribution:
    """The attribution by facts that have the operator."""
    attribution = attribution_of(facts, 0)
    assert attribution is not None
    return attribution


def snapshot(facts: FlinkFacts, now_ms: int, *, before: Snapshot | None = None) -> Snapshot:
    """The snapshot of the facts when this machine's clock shows `now_ms`."""
    return snapshot_of(facts, now_ms, name="orders", source=SourceView("flink", "orders"), before=before)
