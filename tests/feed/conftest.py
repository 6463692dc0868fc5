import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from wmtop.engine.feed.messages import Header
from wmtop.engine.snapshot import ChannelView, Holder, Level, Snapshot, Totals
from wmtop.engine.watermarks.settings import Settings

from tests.snapshots import snapshot_for

START_MS = 1_360_000_000_000
MakeSnapshot = Callable[..., Snapshot]


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name; pytest's own are too long for that."""
    path = Path(tempfile.mkdtemp(prefix="wm", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def run_directory(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The run directory of this test alone."""
    path = short_dir / "run"
    monkeypatch.setenv("WMTOP_RUN_DIR", str(path))
    return path


@pytest.fixture
def header() -> Header:
    return Header(name="flights", pid=7, started_ms=START_MS, settings=Settings())


@pytest.fixture
def snapshot() -> MakeSnapshot:
    """Makes snapshot `number` of a run: one a second, F0 holds the watermark, then F1, changing every 25 snapshots."""

    def make(number: int, *, channels: int = 3, **changes: object) -> Snapshot:
        now = START_MS + 1000 * number
        views = [
            ChannelView(
                channel=f"F{i}", watermark_ms=now - 1_800_001 - 97 * i, max_event_ms=now - 97 * i, state="active",
                records=13 * number + i, late=number % 7, quiet_ms=100 * (i % 5), rate=12.5 + i, since_ms=now,
            )
            for i in range(channels)
        ]  # fmt: skip
        fields: dict[str, object] = {
            "name": "flights",
            "state": "live",
            "batch": number,
            "now_ms": now,
            "wall_ms": now + 5,
            "settings": Settings(),
            "level": Level(now - 1_800_001, 500, 9000, Holder(f"F{number // 25 % 2}", START_MS, "behind")),
            "channels": views,
            "totals": Totals(records=100 * number, late=number),
        }
        return snapshot_for(**{**fields, **changes})  # type: ignore[arg-type]

    return make
