"""What a broker adds to a Flink job's splits, by hand."""

from wmtop.engine.snapshot import Cause
from wmtop.engine.targets.flink.barrel import Barrel, BarrelChannel, BarrelInstance, Held
from wmtop.engine.targets.flink.unread import Unread, with_backlog


def cause_with(unread: Unread, cause: Cause) -> tuple[str, str | None, int | None]:
    channels = (
        BarrelChannel("orders-0", 0, 10, "active", 9_000, cause, split=("s", "orders-0")),
        BarrelChannel("orders-1", 0, 90, "active", split=("s", "orders-1")),
    )
    barrel = Barrel(
        "w", 10, ended=False, instances=(BarrelInstance("#0", 10, "active", 2),), channels=channels,
        held=Held("orders-0", cause, 0),
    )  # fmt: skip
    found = with_backlog(barrel, {("s", "orders-0"): unread})
    assert found.held is not None
    return found.held.cause, found.channels[0].cause, found.channels[0].quiet_ms


def test_a_split_with_unread_records_is_not_said_to_have_no_data() -> None:
    assert cause_with(Unread(7, read=0), "quiet") == ("backlog", "backlog", None)
    assert cause_with(Unread(0, read=0), "quiet") == ("quiet", "quiet", 9_000)


def test_records_that_the_next_metrics_will_have_read_are_no_backlog() -> None:
    assert cause_with(Unread(7, read=100), "behind")[0] == "behind"
    assert cause_with(Unread(700, read=100), "behind")[0] == "backlog"
    assert cause_with(Unread(700, read=None), "behind")[0] == "behind"


def test_proven_causes_stay() -> None:
    for cause in ("paused", "back_pressured", "slow_reader"):
        assert cause_with(Unread(700, read=100), cause)[0] == cause
