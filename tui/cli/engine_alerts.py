"""Alerts of an engine in another process, including its loss, which it cannot report itself."""

import asyncio
import time
from collections.abc import AsyncIterator

from ...engine.feed.alert_command import AlertCommand
from ...engine.feed.messages import FromEngine
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, first_line
from ...engine.verdict.alerts import LOST_AFTER_MS

_LOOK_S = 1.0


async def watch_alerts(messages: AsyncIterator[FromEngine], alerts: AlertCommand) -> None:
    """Run the command for each alert until the engine stops; RunError when the engine is lost, after its alert."""
    last: Snapshot | None = None
    heard_s = time.monotonic()
    coming: asyncio.Task[FromEngine] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(messages))
            done, _ = await asyncio.wait({coming}, timeout=_LOOK_S)
            if not done:
                _look_for_silence(last, round(1_000 * (time.monotonic() - heard_s)), alerts)
                continue
            message, coming = coming.result(), None
            if isinstance(message, Snapshot):
                last, heard_s = message, time.monotonic()
                alerts.see(message)
    except StopAsyncIteration:
        return
    except RunError as error:
        alerts.lose(_now_ms(), first_line(str(error)))
        raise
    finally:
        if coming is not None:
            coming.cancel()
        await asyncio.to_thread(alerts.close)


def _look_for_silence(last: Snapshot | None, silent_ms: int, alerts: AlertCommand) -> None:
    """Check for missing snapshots: a suspended or hanging engine sends none, but its connection stays open."""
    if last is not None and last.state not in ("starting", "ended", "failed") and silent_ms >= LOST_AFTER_MS:
        alerts.lose(_now_ms(), silent_ms=silent_ms)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
