"""The short form of `make torture PART=e`, and that a viewer notices what it must not see."""

import asyncio
import random
from collections import Counter
from pathlib import Path

import pytest
from wmtop.engine.feed.messages import Header, Reply, ToEngine, encode_line
from wmtop.engine.feed.publisher import Publisher
from wmtop.engine.snapshot import Totals
from wmtop.engine.watermarks.settings import Settings

from ..snapshots import snapshot_for
from .crowd import Watched, crowd, floods, never_reads, opens_and_closes, watch
from .rounds import TortureError
from .viewers import Torture

HEADER = Header(name="a", pid=1, started_ms=0, settings=Settings())


def test_a_snapshot_older_than_the_one_before_is_noticed(tmp_path: Path) -> None:
    lines = [snapshot_for(name="a", state="live", settings=Settings(), totals=Totals(records=n)) for n in (2, 1)]

    async def server(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(encode_line(HEADER) + b"".join(map(encode_line, lines)))
        await writer.drain()

    async def look() -> None:
        async with await asyncio.start_unix_server(server, "a.sock"):
            await asyncio.wait_for(watch(Path("a.sock"), Watched()), 60)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        with pytest.raises(TortureError, match="1 records after one of 2"):
            asyncio.run(look())


def test_a_crowd_keeps_no_snapshot_from_a_viewer_that_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("a.sock")

    def refuse(command: ToEngine) -> Reply:
        return Reply(id=command.id, ok=False)

    async def look() -> None:
        watched = Watched()
        viewers = [asyncio.create_task(watch(path, watched, at_most=3)) for _ in range(5)]
        for number in range(1, 1_000_000):
            if all(viewer.done() for viewer in viewers):
                break
            publisher.publish(snapshot_for(name="a", state="live", settings=Settings(), totals=Totals(records=number)))
            await asyncio.sleep(0.01)
        assert [await viewer is not None for viewer in viewers] == [True] * 5

    acts = [never_reads, floods, floods, opens_and_closes]
    with Publisher(path, HEADER, refuse) as publisher, crowd(path, acts, random.Random(7)) as counts:
        asyncio.run(asyncio.wait_for(look(), 60))
        assert counts["connections that never read"] == 1


def test_a_run_and_its_tabs_outlast_their_viewers(tmp_path: Path) -> None:
    torture, counts = Torture(tmp_path), Counter[str]()
    try:
        torture.run(random.Random(7), counts)
        torture.serve(random.Random(7), counts)
    finally:
        torture.close()
    assert counts["snapshots seen"]
    assert counts["tabs that drew and answered"]
