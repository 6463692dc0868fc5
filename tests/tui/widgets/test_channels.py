"""A run of our own on Kafka: what is unread is among the first columns."""

import pytest
from wmtop.engine.snapshot import Snapshot, SourceView

from tests.snapshots import replace

from ..canned import live, reported
from ..drive import Driven, drive

KAFKA = SourceView("kafka", "orders at 127.0.0.1:9092", reader="connector", backlog=1_204_567)


def of_kafka() -> Snapshot:
    snapshot = live()
    return replace(snapshot, source=KAFKA, channels=[replace(view, backlog=1_204_567) for view in snapshot.channels])


@pytest.mark.parametrize(
    ("snapshot", "width", "titles"),
    [
        (of_kafka(), 122, ["channel", "watermark", "ahead", "rate/s", "late", "backlog", "state"]),
        (of_kafka(), 110, ["channel", "watermark", "ahead", "late", "backlog", "state"]),
        (live(), 120, ["channel", "watermark", "ahead", "rate/s", "late", "no_data", "state"]),
    ],
)
def test_channel_columns_by_width_keep_the_most_important(snapshot: Snapshot, width: int, titles: list[str]) -> None:
    async def scenario(it: Driven) -> None:
        await it.says("HOLDS", "ChannelTable")
        lines = it.said("ChannelTable").splitlines()
        assert lines[0].replace("no data", "no_data").replace("▾", "").split() == titles
        assert [" 1.20M " in line for line in lines[1:3]] == ["backlog" in titles] * 2

    drive(scenario, *reported(snapshot), size=(width, 36))


def test_a_channel_that_has_ended_without_a_watermark_is_not_waited_for() -> None:
    """A subtask of Flink that never got a split: it has sent the end of the stream, so there is no `none yet`."""
    first, *others = live().channels[:3]
    ended = replace(first, state="finished", watermark_ms=None)

    async def scenario(it: Driven) -> None:
        await it.says("finished", "ChannelTable")
        [row] = [line for line in it.said("ChannelTable").splitlines() if "finished" in line]
        assert "ended" in row
        assert "none yet" not in row
        assert "?" not in it.said("Barrel")
        assert "║" in it.said("Barrel").partition("\n")[2]

    drive(scenario, *reported(replace(live(), channels=[ended, *others])), size=(110, 36))
