"""An engine's alerts from another process: the loss of the engine is one of them."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path

import pytest
from msgspec.structs import replace
from wmtop.engine.feed.alert_command import AlertCommand
from wmtop.engine.feed.messages import FromEngine
from wmtop.engine.snapshot import Reason, Verdict
from wmtop.engine.system.errors import RunError
from wmtop.tui.cli.engines import watch_alerts

from ..canned import NOW, WALL, header, live

MOVING, STALLED = (Verdict(name, NOW, speed=1.0, reason=Reason("advancing")) for name in ("moving", "stalled"))


def seen(tmp_path: Path, why: str | None) -> list[dict[str, object]]:
    """The alerts of an engine that stalls and then is lost, or stops in good order."""
    out = tmp_path / "alerts"

    async def messages() -> AsyncIterator[FromEngine]:
        yield header()
        for number, verdict in enumerate((MOVING, STALLED)):
            yield replace(live(wall_ms=WALL + 1_000 * number, now_ms=NOW + 1_000 * number), verdict=verdict)
        if why is not None:
            raise RunError(why)

    alerts = AlertCommand(["tee", "-a", str(out)], "flights", print)
    with pytest.raises(RunError, match=why) if why is not None else nullcontext():
        asyncio.run(watch_alerts(messages(), alerts))
    return [json.loads(line) for line in out.read_text().splitlines()]


def test_a_killed_engine_is_an_alert(tmp_path: Path) -> None:
    stalled, lost = seen(tmp_path, "the engine is gone: killed")
    assert (stalled["code"], stalled["verdict"]) == ("verdict_changed", "stalled")
    assert (lost["code"], lost["target"], lost["verdict"]) == ("engine_lost", "flights", "unknown")
    args = lost["args"]
    assert isinstance(args, dict)
    assert args["why"] == "the engine is gone: killed"


def test_an_engine_that_stops_is_no_alert(tmp_path: Path) -> None:
    assert [alert["code"] for alert in seen(tmp_path, None)] == ["verdict_changed"]


def test_an_engine_that_hangs_is_an_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its connection stays open, and nothing comes."""
    monkeypatch.setattr("wmtop.tui.cli.engines.LOST_AFTER_MS", 30)
    monkeypatch.setattr("wmtop.tui.cli.engines._LOOK_S", 0.02)
    said = asyncio.Event()
    silences: list[int | None] = []

    class Heard(AlertCommand):
        def lose(self, wall_ms: int, why: str | None = None, *, silent_ms: int | None = None) -> None:
            silences.append(silent_ms)
            said.set()

    async def messages() -> AsyncIterator[FromEngine]:
        yield header()
        yield replace(live(), verdict=MOVING)
        await said.wait()

    asyncio.run(watch_alerts(messages(), Heard(["true"], "flights", print)))
    assert silences
    assert min(silent or 0 for silent in silences) >= 30
