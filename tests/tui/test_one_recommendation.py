"""Every surface gives the same recommended lateness, or the same reason why there is none."""

import json
from pathlib import Path

import pytest
from msgspec import to_builtins
from wmtop.engine.feed.recording_writer import RecordingWriter
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.snapshot.recommendation import recommendation
from wmtop.engine.text.codes import recommended_line, recommended_words
from wmtop.engine.text.formatting import setting
from wmtop.engine.watermarks.settings import Settings, Tumbling

from ..doctor.streams import SECOND, Stream, traffic
from .canned import header
from .cli.commands import run
from .drive import Driven, drive

SETTINGS = Settings(lateness_ms=0, idle_after_ms=300 * SECOND, window=Tumbling(10 * SECOND))


def losing(steps: int) -> Snapshot:
    """A run without lateness whose records come up to 20 s late."""
    snapshot = Stream(SETTINGS).run(steps, traffic("abcd", each=5, disorder=20 * SECOND)).snapshot
    assert snapshot is not None
    return snapshot


def recorded(path: Path, snapshot: Snapshot) -> Path:
    with RecordingWriter(path, header(), existing="replace") as writer:
        writer.append(snapshot)
    return path


@pytest.mark.parametrize("steps", [60, 600])
def test_the_commands_and_the_report_agree(steps: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    snapshot = losing(steps)
    path, found = recorded(tmp_path / "run.rec", snapshot), recommendation(snapshot)
    assert (found.lateness_ms is None) == (steps == 60)
    line, (value, why) = recommended_line(found), recommended_words(found)
    assert line in run(capsys, "replay", path, "--once")[1]
    assert line in run(capsys, "advise", path)[1]
    in_json = [json.loads(run(capsys, *command, "--json")[1]) for command in (
        ("replay", path, "--once"), ("advise", path), ("check", path),
    )]  # fmt: skip
    assert [seen["recommendation"] for seen in in_json] == [to_builtins(found)] * 3
    [fix] = {one["fix"] for one in in_json[2]["findings"] if one["code"] == "lateness-too-small"}
    wanted = why if found.lateness_ms is None else f"Set the lateness to {setting(found.lateness_ms)} ("
    assert wanted in fix
    assert wanted in run(capsys, "check", path)[1]
    assert run(capsys, "report", path, "-o", tmp_path / "out")[0] == 0
    [report] = (tmp_path / "out").glob("*.md")
    assert f"| recommended lateness | {value}: {why}".replace("<", r"\<") in report.read_text()


@pytest.mark.parametrize("steps", [60, 600])
def test_the_screens_agree(steps: int) -> None:
    snapshot = losing(steps)
    found = recommendation(snapshot)
    value, why = recommended_words(found)

    async def scenario(it: Driven) -> None:
        await it.press("l")
        await it.shows("#recommended", value, why.split(", ")[0])
        if found.lateness_ms is not None:
            await it.says(f"◆ recommended {value}", "#plot")
        await it.press("escape", "d")
        fix = f"Set the lateness to {value}" if found.lateness_ms is not None else "3,838"
        await it.until(lambda: fix in " ".join(it.said("#body Canvas, #body Rows").split()))

    drive(scenario, header(), snapshot, size=(200, 50))
