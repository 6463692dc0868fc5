"""`wmtop replay` as it is given: without a terminal, with bad input, as a copy without names."""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from wmtop.engine.feed.recording_reader import RecordingReader
from wmtop.engine.feed.recording_writer import RecordingWriter
from wmtop.tui import cli

from ..recorded import COUNT, record, timeline


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    record(tmp_path / "flights.rec")
    return Path("flights.rec")


def run(*arguments: str) -> int:
    sys.argv = ["wmtop", "replay", *arguments]
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_every_snapshot_or_the_last_as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("flights.rec", "--json") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["batch"] for line in lines] == list(range(COUNT))
    assert run("flights.rec", "--json", "--once") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == (lines[-1] + "\n", "")


def test_the_summary_of_the_last(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("flights.rec", "--once") == 0
    assert capsys.readouterr().out.startswith("flights: live, 150,000 records, 16 channels\n")


def test_a_recording_that_was_cut_off_says_so_beside_what_it_holds(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    assert run("flights.rec", "--json") == 0
    said = capsys.readouterr()
    count = said.out.count("\n")
    assert 0 < count < COUNT
    assert [json.loads(line)["batch"] for line in said.out.splitlines()] == list(range(count))
    assert said.err.startswith("wmtop: flights.rec was not closed")
    assert f"complete snapshot is {count}, 2013-02-08 " in said.err
    assert said.err.count("\n") == 1


def test_the_snapshot_of_a_moment(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last one at or before the moment, given as epoch ms or as ISO 8601."""
    for at in (str(timeline(41).now_ms), f"{datetime.fromtimestamp(timeline(41).now_ms / 1000 + 59, UTC):%FT%T}"):
        assert run("flights.rec", "--once", "--json", "--at", at) == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert json.loads(line)["batch"] == 41
        assert run("flights.rec", "--once", "--at", at) == 0
        assert "42,000 records" in capsys.readouterr().out


def test_a_copy_replaces_a_file_only_by_force(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("out.rec").write_text("precious")
    assert run("flights.rec", "--redact", "out.rec", "--force") == 0
    with RecordingReader(Path("out.rec")) as reader:
        assert len(reader) == COUNT


def test_a_copy_without_names(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("flights.rec", "--redact", "out.rec") == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("out.rec: 150 snapshots, 16 channels renamed\n", "")
    with RecordingReader(Path("out.rec")) as reader:
        assert [view.channel for view in reader.at(7).channels] == [f"c{n:03d}" for n in range(1, 17)]
        assert reader.at(7).totals == timeline(7).totals


BAD = {
    "none.rec": "there is no run, file or directory none.rec",
    "./none.rec": "cannot read none.rec: No such file or directory",
    "text": "text is not a wmtop recording",
    "empty.rec": "empty.rec has no snapshots",
    "flights.rec": "--json, --once or --redact OUT",
    "flights.rec --redact flights.rec": "--redact flights.rec would overwrite the input",
    "flights.rec --redact flights.rec --force": "--redact flights.rec would overwrite the input",
    "flights.rec --redact link.rec --force": "--redact link.rec would overwrite the input",
    "flights.rec --redact text": "text already exists; choose another file or pass --force",
    "flights.rec --once --at 2012-01-01": "the recording starts at 2013-02-08 ",
    "flights.rec --json --at 2013-02-08": "add --once",
    "flights.rec --redact none/out.rec": "none/out.rec",
    "flights.rec --redact out.rec --json": "leave out --once and --json",
    "flights.rec --speed fast": "'fast' is not a speed, e.g.",
    "flights.rec --at noon": "'noon' is not a time, e.g.",
    "": "RECORDING",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_input_is_one_line_and_exit_code_2(arguments: str, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("text").write_text("hello\n")
    Path("link.rec").hardlink_to("flights.rec")
    before = path.read_bytes()
    with RecordingReader(path) as reader:
        header = reader.header
    RecordingWriter(Path("empty.rec"), header).close()
    assert run(*arguments.split()) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert BAD[arguments] in said.err
    assert (path.read_bytes(), Path("text").read_text()) == (before, "hello\n")


def test_a_moment_after_the_end_is_said_beside_the_last_snapshot(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    last = timeline(COUNT - 1).now_ms
    for at, lines in ((last, 0), (last + 1, 1)):
        assert run("flights.rec", "--once", "--json", "--at", str(at)) == 0
        said = capsys.readouterr()
        assert json.loads(said.out)["batch"] == COUNT - 1
        assert said.err.count("the recording ends at 2013-02-08 ") == said.err.count("\n") == lines
