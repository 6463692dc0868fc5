"""The incident export: what is in it, and that nothing is overwritten or leaks."""

import json
import re
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.snapshot import ExplainedColumn, ExplainedValue
from wmtop.tui import cli
from wmtop.tui.screens import incident_report
from wmtop.tui.screens.incident_report import CLIP_MS, MIN_SNAPSHOTS, Incident, LastMinutes, incident_of, write_incident
from wmtop.tui.words.summary import PICTURE, RECORDING, SNAPSHOT, TEXT

from ..canned import CARRIERS, WALL, header, hostile, live, reported
from ..drive import Driven, drive
from ..recorded import COUNT, record, replay, timeline

NAMES = {TEXT, PICTURE, RECORDING, SNAPSHOT}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(*arguments: str) -> int:
    sys.argv = ["wmtop", "report", *arguments]
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def unpacked(path: Path, into: Path) -> dict[str, Path]:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(into)
    return {file.name: file for file in into.rglob("*") if file.is_file()}


def test_a_recording_becomes_a_zip(here: Path) -> None:
    record(here / "a.rec")
    assert report("a.rec", "-o", "out.zip") == 0
    files = unpacked(here / "out.zip", here / "out")
    assert set(files) == NAMES
    text = files[TEXT].read_text()
    for title in ("Verdict", "Findings", "Timeline", "Evidence", "Settings", "Versions"):
        assert f"## {title}" in text
    assert "F9" in text
    assert re.search(r"\| Textual \| \d", text)
    picture = files[PICTURE].read_text()
    assert "<svg" in picture
    assert "url(http" not in picture  # it opens where there is no network
    assert json.loads(files[SNAPSHOT].read_text())["batch"] == COUNT - 1
    with RecordingReader(files[RECORDING]) as reader:
        assert not reader.truncated
        assert reader.at(len(reader) - 1) == timeline(COUNT - 1)
        assert len(reader) == COUNT  # all of it lies within the last minutes


def test_a_moment_of_it_in_a_directory(here: Path) -> None:
    record(here / "a.rec")
    moment = timeline(70).now_ms
    assert report("a.rec", "-o", "out", "--at", str(moment)) == 0
    assert {path.name for path in (here / "out").iterdir()} == NAMES
    with RecordingReader(here / "out" / RECORDING) as reader:
        assert reader.at(len(reader) - 1) == timeline(70)


def test_only_the_last_minutes_are_recorded(tmp_path: Path) -> None:
    every = CLIP_MS // 10
    snapshots = [live(batch=n, wall_ms=WALL + n * every) for n in range(200)]
    with RecordingReader(record(tmp_path / "a.rec", *snapshots)) as reader:
        assert len(incident_of(reader, 150).snapshots) == MIN_SNAPSHOTS
        assert len(incident_of(reader, 5).snapshots) == 6
    fast = [live(batch=n, wall_ms=WALL + n * CLIP_MS // 100) for n in range(200)]
    with RecordingReader(record(tmp_path / "b.rec", *fast)) as reader:
        assert len(incident_of(reader, 150).snapshots) == 101


def test_a_screen_keeps_the_last_minutes_within_bounds() -> None:
    minutes = LastMinutes()
    for n in range(1_000):
        minutes.add(live(wall_ms=WALL + n * 1_000))
    last = live(wall_ms=WALL + 999_000)
    assert len(minutes.until(last)) == CLIP_MS // 1_000 + 1
    assert minutes.until(live(wall_ms=WALL + 900_000))[-1].wall_ms == WALL + 900_000
    kept = minutes.until(last)
    assert kept[:2] == [live(wall_ms=WALL + n * 1_000) for n in (699, 700)]
    assert [one.wall_ms for one in kept] == [WALL + n * 1_000 for n in range(699, 1_000)]


def test_the_minutes_are_not_compressed_on_the_screen_s_thread_and_a_failure_is_not_hidden(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, compress = set[str](), incident_report.compress

    def noted(data: bytes, level: int) -> bytes:
        threads.add(threading.current_thread().name)
        return compress(data, level)

    monkeypatch.setattr(incident_report, "compress", noted)
    minutes = LastMinutes()
    for n in range(3):
        minutes.add(live(wall_ms=WALL + n * 1_000))
    assert len(minutes.until(live(wall_ms=WALL + 3_000))) == 4
    assert threads == {"wmtop-minutes_0"}
    monkeypatch.setattr(incident_report, "MAX_BYTES", None)
    minutes.add(live(wall_ms=WALL + 3_000))
    minutes.until(live(wall_ms=WALL + 4_000))  # after it
    with pytest.raises(TypeError):
        minutes.add(live(wall_ms=WALL + 4_000))


def test_the_minutes_that_a_screen_keeps_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incident_report, "MAX_BYTES", 20_000)
    minutes = LastMinutes()
    for n in range(100):
        minutes.add(live(wall_ms=WALL + n * 1_000))
    kept = minutes.until(live(wall_ms=WALL + 100_000))
    assert 2 < len(kept) < MIN_SNAPSHOTS
    assert [one.wall_ms for one in kept] == [WALL + n * 1_000 for n in range(101 - len(kept), 101)]


def test_redacted_there_is_no_name_in_any_part(here: Path) -> None:
    record(here / "a.rec")
    assert report("a.rec", "-o", "out.zip", "--redact") == 0
    files = unpacked(here / "out.zip", here / "out")
    with RecordingReader(files[RECORDING]) as reader:
        recorded = "".join(repr(snapshot) for snapshot in reader) + repr(reader.header)
    everything = [files[TEXT].read_text(), files[PICTURE].read_text(), files[SNAPSHOT].read_text(), recorded]
    for text in everything:
        for name in ("flights", *CARRIERS):
            assert not re.search(rf"\b{name}\b", text), name
    assert "c001" in everything[0]
    holder = json.loads(everything[2])["level"]["holder"]["channel"]
    assert f" {holder}" in everything[0]  # the same name in all of them
    assert holder in everything[1]


KILLED = """
import os, sys
from wmtop.tui import cli

left, out = int(sys.argv.pop(1)), sys.argv[-1]

def hook(event, arguments):
    global left
    if event in ("open", "os.mkdir", "os.rename") and any(str(one).startswith(out) for one in arguments[:2]):
        left -= 1
        if not left:
            os._exit(9)

sys.addaudithook(hook)
cli.main()
"""


@pytest.mark.parametrize("out", ["out.zip", "out"])
def test_a_killed_report_is_whole_or_not_there(here: Path, out: str) -> None:
    """Killed just before the n-th time that the process makes something at the report's name or in it."""
    record(here / "a.rec", timeline(0))
    codes: list[int] = []
    while 0 not in codes:
        assert not (here / out).exists()
        command = [sys.executable, "-c", KILLED, str(len(codes) + 1), "report", "a.rec", "-o", str(here / out)]
        codes.append(subprocess.run(command, check=False, cwd=here, stdin=subprocess.DEVNULL).returncode)
    assert codes[0] == 9
    assert set(codes) == {9, 0}
    assert {path.name for path in here.iterdir()} == {"a.rec", out}  # what the killed ones left is gone
    files = (
        unpacked(here / out, here / "unpacked")
        if out == "out.zip"
        else {one.name: one for one in (here / out).iterdir()}
    )
    assert set(files) == NAMES


def test_a_directory_keeps_its_other_files(here: Path) -> None:
    record(here / "a.rec")
    (here / "out").mkdir()
    (here / "out" / "notes").write_text("mine")
    (here / "out" / TEXT).write_text("old")
    assert report("a.rec", "-o", "out", "--force") == 0
    assert {path.name for path in (here / "out").iterdir()} == {*NAMES, "notes"}
    assert (here / "out" / TEXT).read_text() != "old"


@pytest.mark.parametrize("out", ["out.zip", "out"])
def test_nothing_is_overwritten_without_force(here: Path, capsys: pytest.CaptureFixture[str], out: str) -> None:
    record(here / "a.rec")
    assert report("a.rec", "-o", out) == 0
    before = (here / out).stat().st_mtime_ns
    assert report("a.rec", "-o", out) == 2
    assert (here / out).stat().st_mtime_ns == before
    assert report("a.rec", "-o", out, "--force") == 0
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_the_input_is_never_the_output(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "in").mkdir()
    path = record(here / "in" / RECORDING)
    before = path.read_bytes()
    assert report(str(path), "-o", "in", "--force") == 2
    record(here / "a.zip")
    assert report("a.zip", "-o", "a.zip", "--force") == 2
    assert path.read_bytes() == before
    assert len(capsys.readouterr().err.strip().splitlines()) == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing-here", "-o", "x.zip"),
        ("a.rec", "-o", "no/such/dir/x.zip"),
        ("a.rec", "-o", "x.zip", "--at", "1970-01-01"),
        ("a.rec", "-o", "x.zip", "--at", "soon"),
        ("a.rec", "-o", "x.zip", "--group", "g"),
        ("a.rec",),
        ("text", "-o", "x.zip"),
    ],
)
def test_errors_are_one_line(here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    record(here / "a.rec")
    (here / "text").write_text("no recording")
    assert report(*arguments) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert not (here / "x.zip").exists()


def test_names_from_outside_are_no_markup(tmp_path: Path) -> None:
    snapshot = hostile()
    write_incident(Incident(header=header(), snapshots=[snapshot], points=[]), tmp_path / "out")
    text = (tmp_path / "out" / TEXT).read_text()
    assert "\x1b" not in text
    assert "[bold]" not in text.replace("\\[bold\\]", "")
    assert not re.search(r"(?<!\\)<", text)


def test_it_says_which_values_the_late_records_have(tmp_path: Path) -> None:
    values = [ExplainedValue("4.2", 600, 4_000, 15.0, 13.9, 16.1, sure=True), ExplainedValue("5.0", 0, 60_000, 0.0)]
    column = ExplainedColumn("firmware", values, late=1_000, records=100_000)
    with RecordingReader(record(tmp_path / "a.rec", live(explain=[column]))) as reader:
        write_incident(incident_of(reader, 0), tmp_path / "out")
    text = (tmp_path / "out" / TEXT).read_text()
    assert "| firmware | 4.2 | 600, 60.0 % | 4,000, 4.0 % | 15.0× (13.9–16.1) |" in text
    assert "| firmware | 5.0" not in text


def test_a_lost_engine_is_said(tmp_path: Path) -> None:
    incident = Incident(header=header(), snapshots=[live()], points=[], lost="the engine was killed")
    write_incident(incident, tmp_path / "out")
    text = (tmp_path / "out" / TEXT).read_text()
    assert "UNKNOWN" in text
    assert "failed" in text
    assert "killed" in (tmp_path / "out" / PICTURE).read_text()


def zips(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.zip"))


def test_the_key_writes_what_is_shown(here: Path) -> None:
    async def scenario(it: Driven) -> None:
        await it.push(replace(live(), batch=300, wall_ms=WALL + 1_000))
        await it.press("E")
        await it.until(lambda: any("-incident-" in toast for toast in it.toasts()))

    drive(scenario, *reported(live()))
    files = unpacked(zips(here)[0], here / "out")
    assert set(files) == NAMES
    assert json.loads(files[SNAPSHOT].read_text())["batch"] == 300
    with RecordingReader(files[RECORDING]) as reader:
        assert len(reader) == 2


def test_the_key_works_in_a_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = record(tmp_path / "a.rec")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    async def scenario(it: Driven) -> None:
        await it.press("right_curly_bracket", "e", "E")
        await it.until(lambda: any("-incident-" in toast for toast in it.toasts()))

    replay(scenario, path)
    assert len(zips(tmp_path / "here")) == 1
