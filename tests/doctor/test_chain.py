"""A chain's findings: the first hops that are stalled, slow, not known or have a critical finding, and nothing else."""

from typing import Any

import pytest
from wmtop.engine.doctor import Finding, diagnose
from wmtop.engine.snapshot import Snapshot, Verdict, VerdictName
from wmtop.engine.snapshot.kinds.chain import Edge
from wmtop.engine.verdict.chain import chain_of
from wmtop.engine.verdict.history import history_point

from tests.snapshots import replace
from tests.stations import station

from ..tui.attached import group

HOUR = 3_600_000
NOW_MS = 1_767_268_800_000


def chained(*verdicts: VerdictName, **of_enrich: Any) -> Snapshot:
    """`orders` -> `enrich` -> `out` -> `report`, with these verdicts."""
    reads: dict[str, dict[str, Edge]]
    reads = {"orders": {}, "enrich": {"orders": "reported"}, "out": {}, "report": {"out": "reported"}}
    stations = [
        station(
            kind="topic" if name in ("orders", "out") else "job",
            name=name,
            target=name,
            event_ms=NOW_MS - place * HOUR,
            reads=reads[name],
            writes={"out": "configured"} if name == "enrich" else {},
            verdict=Verdict(verdict),
            **(of_enrich if name == "enrich" else {}),
        )
        for place, (name, verdict) in enumerate(zip(reads, verdicts, strict=True))
    ]
    chain = chain_of(stations)
    level = replace(group().level, watermark_ms=NOW_MS - 3 * HOUR, holder=None)
    return replace(group(), wall_ms=NOW_MS, now_ms=NOW_MS, channels=[], level=level, verdict=chain.verdict, chain=chain)


def found(snapshot: Snapshot) -> list[Finding]:
    point = history_point(snapshot)
    return diagnose(snapshot, [] if point is None else [point])


def test_a_chain_whose_hops_all_advance_has_no_finding() -> None:
    assert found(chained("moving", "moving", "moving", "moving")) == []


@pytest.mark.parametrize("behind", ["waiting", "stalled", "unknown"])
def test_a_stall_blames_the_first_hop_that_is_stalled_and_none_behind_it(behind: VerdictName) -> None:
    [one] = found(chained("moving", "stalled", behind, behind))
    assert (one.code, one.severity, one.channels) == ("hop-trouble", "critical", ("enrich",))


def test_a_hop_that_is_not_known_leaves_the_chain_not_known() -> None:
    snapshot = chained("moving", "moving", "unknown", "moving")
    assert snapshot.verdict.verdict == "unknown"
    [one] = found(snapshot)
    assert (one.severity, one.channels) == ("warning", ("out",))


def test_a_critical_finding_of_a_hop_is_one_of_the_chain() -> None:
    [one] = found(chained("moving", "moving", "moving", "moving", critical=["future-timestamps"]))
    assert (one.severity, one.channels) == ("critical", ("enrich",))
