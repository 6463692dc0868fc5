"""What a broker adds to a Flink job's splits, by hand."""

from wmtop.engine.targets.flink.samples import (
    Edge,
    JobSample,
    SampledSplit,
    Subtask,
    UnreadPartition,
    Vertex,
    VertexSample,
)

from .attributed import attributed

SOURCE = Vertex("s", "Source: orders", 1, "RUNNING")
WINDOW = Vertex("w", "Window", 1, "RUNNING", (Edge("s", forward=False),))


def cause_with(unread: UnreadPartition, *, moves: bool = True, **load: float) -> tuple[str, str | None, int | None]:
    """The holder's cause, its channel's and its quiet time, if its split is the slowest of two."""

    def sample(at_ms: int, watermark: int) -> JobSample:
        slow = SampledSplit("orders-0", watermark, offset=watermark)
        splits = slow, SampledSplit("orders-1", 90, offset=90)
        source = Subtask(0, output=watermark, splits=splits, **load)  # type: ignore[arg-type]
        window = Subtask(0, input=watermark, output=watermark, late={"w": 0})
        return JobSample(at_ms, (VertexSample(SOURCE, (source,)), VertexSample(WINDOW, (window,), windowed=True)))

    now, before = sample(10_000, 10), sample(0, 9 if moves else 10)
    read_ms = {} if moves else {("s", "orders-0"): (10, 1_000)}
    attribution = attributed(now, before, unread={("s", "orders-0"): unread}, read_ms=read_ms)
    assert attribution.held_back_by is not None
    assert attribution.held_back_by.channel == "orders-0"
    return attribution.held_back_by.cause, attribution.causes[0], attribution.channels[0].quiet_ms


def test_a_split_with_unread_records_is_not_said_to_have_no_data() -> None:
    assert cause_with(UnreadPartition(7, read=0), moves=False) == ("backlog", "backlog", None)
    assert cause_with(UnreadPartition(0, read=0), moves=False) == ("quiet", "quiet", 9_000)


def test_records_that_the_next_metrics_will_have_read_are_no_backlog() -> None:
    assert cause_with(UnreadPartition(7, read=100))[0] == "behind"
    assert cause_with(UnreadPartition(700, read=100))[0] == "backlog"
    assert cause_with(UnreadPartition(700, read=None))[0] == "behind"


def test_proven_causes_stay() -> None:
    unread = UnreadPartition(700, read=100)
    assert cause_with(unread, drift_ms=7, source_idle_ms=6_000)[0] == "paused"
    assert cause_with(unread, drift_ms=7)[0] == "backlog"  # past the limit of alignment, and reads on
    assert cause_with(unread, back_pressured=0.9)[0] == "back_pressured"
    assert cause_with(unread, busy=0.9)[0] == "slow_reader"
