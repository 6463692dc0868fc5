"""The Monitor's own streams as recordings, by what `replay` and `check` print of them (see `test_golden.py`)."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from json import dumps
from pathlib import Path

import pytest
from wmtop.engine.feed.recording_writer import RecordingWriter

from ..doctor.situations import SITUATIONS
from ..doctor.streams import Stream
from ..tui.canned import header
from .golden import Driver, compare, thinned
from .replays import REPLAYS

ASK_MS = 1_800_000_000_000
FEW = 12
"""So many firings are in the golden file; of all there is a checksum."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("golden")


@pytest.fixture(scope="module")
def driver(place: Path) -> Iterator[Driver]:
    with Driver(place) as driver:
        yield driver


def recorded(place: Path, name: str, build: Callable[[], Stream]) -> tuple[Path, Stream]:
    """A recording of all that a stream has published."""
    path, stream = place / f"{name}.rec", build()
    with RecordingWriter(path, header(), existing="replace") as writer:
        for snapshot in stream.published:
            writer.append(snapshot)
    return path, stream


@pytest.mark.matrix  # `tests/doctor/test_situations.py` builds the same
@pytest.mark.parametrize("name", [name for name in SITUATIONS if "ten_thousand" not in name])
def test_situation(driver: Driver, place: Path, name: str) -> None:
    path, _ = recorded(place, name, SITUATIONS[name].build)
    seen = {
        "end": driver.wmtop("replay", path, "--once", "--json", now_ms=ASK_MS),
        "check": driver.wmtop("check", path, "--json", now_ms=ASK_MS),
    }
    compare("situations", name, thinned(seen))


@pytest.mark.parametrize("name", REPLAYS)
def test_replay(driver: Driver, place: Path, name: str) -> None:
    path, stream = recorded(place, name, REPLAYS[name])
    middle = stream.published[len(stream.published) // 2].now_ms
    firings = getattr(stream, "firings")  # noqa: B009 - a Replay has them
    seen = {
        "firings": len(firings),
        "sha256": sha256(dumps(firings).encode()).hexdigest(),
        "last firings": firings[-FEW:],
        "middle": driver.wmtop("replay", path, "--once", "--json", "--at", middle, now_ms=ASK_MS),
        "check middle": driver.wmtop("check", path, "--json", "--at", middle, now_ms=ASK_MS),
        "end": driver.wmtop("replay", path, "--once", "--json", now_ms=ASK_MS),
        "check": driver.wmtop("check", path, "--json", now_ms=ASK_MS),
        "advise": driver.wmtop("advise", path, "--json", now_ms=ASK_MS),
        "preview": driver.wmtop("preview", path, "--idle-after", "1h", "--json", now_ms=ASK_MS),
    }
    compare("replays", name.replace(" ", "_"), seen)
