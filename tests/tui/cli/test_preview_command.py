"""`wmtop preview` on a recording of a real monitor, against the same change on a copy of it."""

import json
import sys
from pathlib import Path

import pytest
from wmtop.engine.feed.messages import Header
from wmtop.engine.feed.recording_writer import RecordingWriter
from wmtop.engine.watermarks.settings import Settings, Tumbling
from wmtop.tui import cli

from ...reference.ops import Tick
from ...watermarks.lockstep import Driver
from ...watermarks.steps import batch, saved_and_read

MINUTE, HOUR = 60_000, 3_600_000


@pytest.fixture
def driver(tmp_path: Path) -> Driver:
    driver = Driver(Settings(lateness_ms=30 * MINUTE, idle_after_ms=None, window=Tumbling(HOUR)))
    now = 100 * HOUR
    driver.apply(batch(now, ("a", now), ("b", now - HOUR), ("c", now - 2 * HOUR)))
    for step in range(1, 10):
        driver.apply(batch(now + step * HOUR, ("a", now + step * HOUR)))
        driver.apply(Tick(now + step * HOUR + 1))
        driver.apply(Tick(now + step * HOUR + 2))
    with RecordingWriter(tmp_path / "run.rec", Header(name="x", pid=1, started_ms=0, settings=Settings())) as writer:
        writer.append(driver.snapshot())
    return driver


def run(*arguments: str) -> int:
    sys.argv = ["wmtop", "preview", *arguments]
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    ("option", "value", "change"),
    [("--idle-after", "2h", {"idle_after_ms": 2 * HOUR}), ("--lateness", "1h", {"lateness_ms": HOUR})],
)
def test_it_prints_what_the_change_then_does(
    driver: Driver, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    option: str, value: str, change: dict[str, int],
) -> None:  # fmt: skip
    assert run(str(tmp_path / "run.rec"), option, value, "--json") == 0
    reported = json.loads(capsys.readouterr().out)
    copy = saved_and_read(driver.monitor)
    copy.change(**change, who="test", wall_ms=0)
    fired = [line for line in copy.tick(driver.snapshot().now_ms or 0) if line.kind == "fire"]
    holder = copy.clock.holder()
    assert holder is not None
    assert (reported["watermark_ms"], reported["holder"], reported["fires"]) == (
        copy.level, copy.channels[holder].name, len(fired),
    )  # fmt: skip
    assert reported["frozen_ms"] == (0 if option == "--idle-after" else 30 * MINUTE)
    assert reported["from_start"] is not None


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        ((), 2, "--lateness D"),
        (("--lateness", "1h", "--idle-after", "2h"), 2, "one setting"),
        (("--lateness", "1h", "--at", "1970-01-01T00:00:00Z"), 2, "starts at"),
        (("--idle-after", "soon"), 2, "'soon'"),
    ],
)
def test_what_cannot_be_previewed_is_one_line(
    driver: Driver,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    code: int,
    named: str,
) -> None:
    assert run(str(tmp_path / "run.rec"), *arguments) == code
    said = capsys.readouterr().err
    assert named in said
    assert said.count("\n") == 1


def test_a_recording_that_does_not_exist_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(f"{tmp_path}/none.rec", "--lateness", "1h") == 2
    assert f"no recording {tmp_path}/none.rec" in capsys.readouterr().err
