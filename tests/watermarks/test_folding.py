"""Channels beyond `--max-channels` share the channel `other`."""

import msgspec
import pytest
from wmtop.engine.feed.messages import LINE_LIMIT
from wmtop.engine.snapshot import ChannelView, Snapshot
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.channels import TooManyChannelsError
from wmtop.engine.watermarks.monitor import Monitor
from wmtop.engine.watermarks.monitor_state import new_monitor
from wmtop.engine.watermarks.settings import MAX_CHANNELS, Settings, StrategyName, Tumbling

from .aggregate import observe
from .steps import batch, saved_and_read


def monitor_of(most: int, strategy: StrategyName = "bounded") -> Monitor:
    return new_monitor(
        Settings(strategy=strategy, lateness_ms=0, idle_after_ms=None, window=Tumbling(10), max_channels=most)
    )


def picture(monitor: Monitor) -> Snapshot:
    return snapshot_of(monitor, name="test", state="live", wall_ms=0)


def test_the_first_channels_by_batch_and_name_are_kept_also_after_a_resume() -> None:
    monitor = monitor_of(3)
    monitor.apply(observe(monitor, batch(1, ("z", 5)), 0))
    monitor.apply(observe(monitor, batch(2, ("d", 3), ("c", 4), ("b", 5), ("a", 6), ("z", 7)), 1))
    assert [view.channel for view in picture(monitor).channels] == ["z", "a", "b", "other"]
    monitor = saved_and_read(monitor)
    monitor.apply(observe(monitor, batch(3, ("c", 8), ("e", 9), ("a", 9)), 2))
    snapshot = picture(monitor)
    assert [(view.channel, view.records) for view in snapshot.channels] == [("z", 2), ("a", 2), ("b", 1), ("other", 4)]
    assert snapshot.totals.records == 9
    assert snapshot.folded is not None
    assert (snapshot.folded.channels, snapshot.folded.at_least, snapshot.folded.records) == (3, False, 4)


def test_no_more_folded_channels_are_kept_than_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wmtop.engine.watermarks.channels.MAX_COUNTED", 3)
    monitor = monitor_of(1)
    names = [f"channel {number}" for number in range(9)]
    for number, size in enumerate((4, 9), 1):
        monitor.apply(observe(monitor, batch(number, *((name, 5) for name in names[:size])), 0))
        folded = picture(monitor).folded
        assert folded is not None
        assert (folded.channels, folded.at_least) == (3, size == 9)
    assert folded.records == 3 + 8
    assert len(monitor.folded.digests) == 3


def test_up_to_the_limit_nothing_is_folded() -> None:
    monitor = monitor_of(3)
    monitor.apply(observe(monitor, batch(1, ("a", 5), ("b", 5), ("c", 5)), 0))
    assert picture(monitor).folded is None
    assert [view.channel for view in picture(monitor).channels] == ["a", "b", "c"]


def test_channels_known_before_their_first_record_count_too() -> None:
    monitor = monitor_of(2)
    monitor.add_channels(["p-0", "p-1", "p-2", "p-3"], 0)
    assert [view.channel for view in picture(monitor).channels] == ["other", "p-0", "p-1"]


def test_a_strategy_that_goes_by_the_order_of_records_says_that_it_cannot_fold() -> None:
    monitor = monitor_of(1, "smoothed")
    observation = observe(monitor, batch(1, ("a", 5), ("b", 5)), 0)
    with pytest.raises(TooManyChannelsError, match="--max-channels"):
        monitor.apply(observation)


def test_a_snapshot_with_the_most_channels_fits_into_a_line() -> None:
    """Names of 256 control characters, six bytes each in JSON, and a hash: the worst that there is."""
    big = 2**62
    view = ChannelView(
        "\x01" * 256 + "~01234567", big, big, "catching_up", big, big, big, big, big, big, big, True, big, big, big,
        big, 1.0 / 3, big, big,
    )  # fmt: skip
    size = len(msgspec.json.encode(view)) + 1
    assert size * (MAX_CHANNELS + 1) < LINE_LIMIT * 3 // 4
