"""Who is blamed for the loss of a job's hop, by what its kind of target reports."""

import pytest
from wmtop.engine.snapshot import Cause, FlinkJob, Note, Snapshot, SourcePosition, SparkProgress, WatermarkNode
from wmtop.engine.verdict.history import HistoryPoint
from wmtop.engine.verdict.hop_blame import HopBlame, blame_of

from tests.snapshots import replace

from ..tui.attached import NOW, group, query


def several(unread: int | None, holds: int | None = 1, **spark: object) -> Snapshot:
    """A Spark query with an input for each partition, held back by that of one (None: not known which)."""
    nodes = [WatermarkNode("scheduled", 1_800_000, holds=place == holds, sources=[place]) for place in range(3)]
    sources = [
        SourcePosition(f"source {place}: kafka flights, 1 partition", {f"flights/{place}": 9}, unread, None)
        for place in range(3)
    ]
    return replace(query(), spark=SparkProgress(nodes=nodes, **spark), sources=sources)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("snapshot", "blame"),
    [
        (several(0), HopBlame("flights-1", "quiet")),
        (several(7), HopBlame("flights-1", "backlog")),
        (several(None), HopBlame("flights-1", None)),
        (several(7, trigger_ms=30_000, batch_ms=900), HopBlame(None, "trigger")),
        (several(0, trigger_ms=30_000, batch_ms=900), HopBlame("flights-1", "quiet")),
        (several(7, trigger_ms=1_000, batch_ms=900), HopBlame("flights-1", "backlog")),
        (several(7, trigger_ms=30_000), HopBlame("flights-1", "backlog")),
        (several(7, frozen_ms=60_000), HopBlame(None, "lateness_raised")),
        (several(7, holds=None), HopBlame()),
        (several(7, holds=None, trigger_ms=30_000, batch_ms=900), HopBlame(None, "trigger")),
        (several(0, holds=None, trigger_ms=30_000, batch_ms=900), HopBlame()),
        (several(None, holds=None, trigger_ms=30_000, batch_ms=900), HopBlame()),
    ],
)
def test_a_spark_query_is_held_back_by_its_delay_its_trigger_or_an_input(snapshot: Snapshot, blame: HopBlame) -> None:
    assert blame_of(snapshot, []) == blame


def test_a_trigger_that_came_twice_and_moved_nothing_is_not_blamed() -> None:
    """Seen in the demo, whose trigger is 1s: an airport without data for 10s."""
    shown = several(7, trigger_ms=30_000, batch_ms=900)
    for ago_ms, blame in ((59_000, HopBlame(None, "trigger")), (61_000, HopBlame("flights-1", "backlog"))):
        level = replace(shown.level, moved_ms=(shown.now_ms or 0) - ago_ms)
        assert blame_of(replace(shown, level=level), []) == blame


def test_until_the_next_batch_has_ended_no_input_is_said_to_have_no_data() -> None:
    """Seen in the demo: for a second or two an airport was named, `no data`, though its records had just come."""
    shown = several(0, trigger_ms=30_000, batch_ms=900, batches_unmoved=0)
    assert blame_of(shown, []) == HopBlame(None, "trigger")
    busy = several(0, trigger_ms=1_000, batch_ms=4_000, batches_unmoved=0)
    assert blame_of(busy, []) == HopBlame("flights-1", None)
    ended = replace(busy.spark, batches_unmoved=1)
    assert blame_of(replace(busy, spark=ended), []) == HopBlame("flights-1", "quiet")
    read = [replace(one, batches_unmoved=1) for one in busy.sources or ()]
    causes: dict[int, Cause | None] = {1: None, 2: "quiet", 9: "quiet"}
    for unmoved, cause in causes.items():
        seen = replace(busy, spark=replace(busy.spark, batches_unmoved=unmoved), sources=read)
        assert blame_of(seen, []) == HopBlame("flights-1", cause)
    late = [replace(one, batches_unmoved=3) for one in busy.sources or ()]
    seen = replace(busy, spark=replace(busy.spark, batches_unmoved=3), sources=late)
    assert blame_of(seen, []) == HopBlame("flights-1", "behind")


def held(snapshot: Snapshot) -> Snapshot:
    """Held back by a channel with a backlog, of which nothing is read now."""
    holder = replace(snapshot.level.holder, cause="backlog")
    channels = [replace(view, rate=0.0) for view in snapshot.channels]
    return replace(snapshot, level=replace(snapshot.level, holder=holder), channels=channels)


def past(backlogs: list[int], busy: float = 0.1, moves_ms: int = 0) -> list[HistoryPoint]:
    return [
        HistoryPoint(NOW, NOW + place * moves_ms, 0, "0", 0, 0, NOW + place * 1_000, backlog=backlog, busy=busy)
        for place, backlog in enumerate(backlogs)
    ]


@pytest.mark.parametrize(
    ("points", "is_paused"),
    [
        (past([1, 1, 2, 3, 3, 5, 8, 9]), True),
        (past([1, 1, 2, 3]), False),
        (past([1, 1, 2, 3, 3, 5, 2, 9]), False),
        (past([1, 1, 2, 3, 0, 5, 8, 9]), False),
        (past([1, 1, 2, 3, 3, 5, 8, 9], moves_ms=1), False),
        (past([1, 1, 2, 3, 3, 5, 8, 9], busy=0.9), False),
        ([], False),
    ],
)
def test_a_flink_source_that_is_free_and_reads_nothing_is_paused(points: list[HistoryPoint], is_paused: bool) -> None:
    shown = replace(held(group()), flink=FlinkJob("c" * 32, "report", "RUNNING", None, []))
    assert (blame_of(shown, points).cause == "paused") is is_paused


def test_a_group_without_a_member_of_which_nothing_is_read_is_named_so() -> None:
    shown = held(group())
    alone = replace(shown, notes=[Note(NOW, "no_member", {"unread": 7})])
    assert shown.level.holder is not None
    assert blame_of(alone, []) == HopBlame(shown.level.holder.channel, "no_member")
    reads = replace(alone, channels=[replace(view, rate=2.0) for view in alone.channels])
    assert blame_of(reads, []).cause != "no_member"
    assert blame_of(shown, []) == HopBlame(shown.level.holder.channel, "backlog")


def test_the_only_channel_of_a_job_is_blamed_for_what_it_has_not_read_though_it_is_behind_no_other() -> None:
    """Seen: 51m were lost in a group, and no cause was said."""
    shown = held(replace(group(), blockers=[]))
    level = replace(shown.level, behind_fastest_ms=0)
    assert level.holder is not None
    for cause, blame in (("backlog", HopBlame(level.holder.channel, "backlog")), ("quiet", HopBlame())):
        alone = replace(shown, level=replace(level, holder=replace(level.holder, cause=cause)))
        assert blame_of(alone, []) == blame
