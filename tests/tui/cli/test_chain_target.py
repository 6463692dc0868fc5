"""A chain as a target: its snapshots, their alerts, and its recording on the screen."""

import asyncio
from pathlib import Path

import pytest
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.feed.recording_writer import RecordingWriter
from wmtop.engine.feed.redaction import redact
from wmtop.engine.snapshot import Cause, Chain, Reason, Snapshot, Verdict, VerdictName
from wmtop.engine.targets.target import header_of
from wmtop.engine.verdict.alerts import AlertRule, VerdictChanged
from wmtop.engine.verdict.chain import chain_of
from wmtop.engine.verdict.history import history_point
from wmtop.engine.verdict.verdict import SnapshotJudge
from wmtop.tui.cli.chain import ChainLook, ChainTarget
from wmtop.tui.replay.app import ReplayApp
from wmtop.tui.screens.doctor import DoctorScreen
from wmtop.tui.screens.fleet import TargetChainScreen
from wmtop.tui.words.check import CheckInput, reason_of

from tests.stations import station

HOUR, NOW_MS = 3_600_000, 1_767_268_800_000


def chain(
    verdict: VerdictName = "moving", lost_ms: int = HOUR, cause: Cause | None = "quiet", out_ms: int | None = NOW_MS
) -> Chain:
    """`orders` -> `enrich` -> `out`."""
    enrich_ms = NOW_MS - lost_ms
    return chain_of(
        [
            station(kind="topic", name="orders", target="orders", event_ms=NOW_MS, verdict=Verdict("moving")),
            station(
                kind="job", name="enrich", target="enrich", event_ms=enrich_ms, channel="3", cause=cause,
                reads={"orders": "reported"}, writes={"out": "configured"},
                verdict=Verdict(verdict, reason=Reason("records_come")),
            ),
            station(
                kind="topic", name="out", target="out", event_ms=out_ms and enrich_ms, verdict=Verdict("waiting"),
            ),
        ]
    )  # fmt: skip


def pictures(*chains: Chain) -> list[Snapshot]:
    """The snapshots of a chain that is looked at every ten seconds."""
    target, judge = ChainTarget([]), SnapshotJudge()
    return [
        judge.judge(target.picture("chain", ChainLook(one), NOW_MS + 10_000 * place))
        for place, one in enumerate(chains)
    ]


def test_a_snapshot_of_a_chain_names_the_hop_to_blame_since_it_is_to_blame() -> None:
    first, second = pictures(chain(), chain(lost_ms=2 * HOUR))
    assert second.level.holder is not None
    assert (second.level.holder.channel, second.level.holder.cause) == ("enrich", "quiet")
    assert second.level.holder.since_ms == first.now_ms
    assert (second.level.watermark_ms, second.level.behind_clock_ms) == (NOW_MS - 2 * HOUR, 2 * HOUR + 10_000)


def test_the_verdict_is_the_worst_of_the_hops_not_that_of_the_last_one() -> None:
    assert [one.verdict.verdict for one in pictures(chain(), chain("stalled"), chain("unknown"))] == [
        "waiting", "stalled", "unknown",
    ]  # fmt: skip


@pytest.mark.parametrize(("cause", "said"), [("quiet", "quiet"), ("lateness_raised", "lateness")])
def test_a_stall_is_an_alert_that_names_the_hop_and_its_cause(cause: Cause, said: Cause) -> None:
    rule = AlertRule()
    events = [
        event
        for one in pictures(chain(cause=cause), chain("stalled", cause=cause))
        if (point := history_point(one)) is not None
        for event in rule.see(point)
    ]
    [event] = [event for event in events if event.alert]
    assert isinstance(event, VerdictChanged)
    assert (event.verdict, event.channel, event.cause) == ("stalled", "enrich", said)


def test_no_hop_is_blamed_for_a_loss_without_a_known_cause() -> None:
    [one] = pictures(chain(cause=None))
    assert one.level.holder is None


def shown_text(app: ReplayApp) -> str:
    """What the whole screen shows, a line each."""
    lines = app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
    return "\n".join(line.text for line in lines)


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "chain.rec"
    seen = pictures(*(chain(lost_ms=place * HOUR) for place in range(1, 6)))
    with RecordingWriter(path, header_of(seen[0], seen[0].wall_ms)) as writer:
        for one in seen:
            writer.append(one)
    return path


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (120, 36)])
def test_the_player_shows_the_staircase_and_follows_each_step(recording: Path, size: tuple[int, int]) -> None:
    async def scenario() -> None:
        with RecordingReader(recording) as reader:
            app = ReplayApp(reader, playing=False)
            async with app.run_test(size=size) as pilot:
                await pilot.pause(0.4)
                assert isinstance(app.screen, TargetChainScreen)
                assert "1h are lost in enrich" in shown_text(app)
                await pilot.press("full_stop", "full_stop")
                await pilot.pause(0.6)
                assert "3h are lost in enrich" in shown_text(app)
                await pilot.press("down", "enter")
                await pilot.pause()
                assert app.is_running
                await pilot.press("escape")
                await pilot.pause()
                assert isinstance(app.screen, TargetChainScreen)
                assert "lost in enrich" in shown_text(app)
                app.of_fleet = True
                await pilot.press("escape")
                await pilot.pause()
                assert app.return_value == "fleet"

    asyncio.run(scenario())


def test_d_opens_the_doctor_from_the_staircase(recording: Path) -> None:
    async def scenario() -> None:
        with RecordingReader(recording) as reader:
            app = ReplayApp(reader, playing=False)
            async with app.run_test(size=(120, 36)) as pilot:
                await pilot.pause(0.4)
                assert isinstance(app.screen, TargetChainScreen)
                await pilot.press("d")
                await pilot.pause(0.4)
                assert isinstance(app.screen, DoctorScreen)
                await pilot.press("escape")
                await pilot.pause(0.4)
                assert isinstance(app.screen, TargetChainScreen)

    asyncio.run(scenario())


def test_a_redacted_copy_has_the_losses_and_no_name(recording: Path, tmp_path: Path) -> None:
    copy = tmp_path / "redacted.rec"
    with RecordingReader(recording) as reader:
        redact(reader, copy, lambda done: None)
    with RecordingReader(copy) as reader:
        seen = reader.at(len(reader) - 1).target
    assert isinstance(seen, Chain)
    assert (seen.behind_ms, seen.worst) == (5 * HOUR, 1)
    names = {hop.name for hop in seen.hops}
    assert len(names) == 3
    assert names.isdisjoint({"orders", "enrich", "out"})


def test_check_says_how_far_a_chain_is_behind_its_start_and_not_behind_the_clock() -> None:
    [one] = pictures(chain())
    given = CheckInput(one, [], "moving", [])
    assert "clock" not in reason_of(given)
