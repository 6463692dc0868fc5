"""`wmtop advise` as a user calls it: on a recording, and on what holds no evidence."""

import json
from pathlib import Path

import pytest
from wmtop.tui.words.lateness import FLINKS_RULE

from .checkpoints import checkpoint
from .commands import run

FLIGHTS = Path(__file__).parents[2] / "doctor" / "flights-lateness-3h.rec"


def test_a_recording_gives_advice_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "advise", FLIGHTS, "--target", "97%", "--json")
    said = json.loads(out)
    assert code == 0
    assert said["records"] == 936
    assert said["lateness_ms"] == said["recommendation"]["lateness_ms"] == said["lateness"]["lateness_ms"]
    assert said["recommendation"]["high"] <= 0.03
    assert set(said["lines"]) == {"spark", "flink_java", "flink_sql", "kafka_streams"}
    assert FLINKS_RULE in run(capsys, "advise", FLIGHTS, "--target", "97%")[1]


def test_too_few_records_give_no_lateness_and_exit_with_3(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "advise", FLIGHTS)
    assert code == 3
    assert "936 records are too few: 99.9 % needs 3,838" in out
    said = json.loads(run(capsys, "advise", FLIGHTS, "--json")[1])
    assert (said["lateness_ms"], said["lines"]) == (None, {})
    assert said["recommendation"]["reason"] == "too_few"


def test_what_has_no_evidence_exits_with_3_and_says_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkpoint(tmp_path / "orders", 7)
    code, out, _ = run(capsys, "advise", path, "--for", "1ms")
    assert (code, "publish(spark)" in out) == (3, True)
    said = json.loads(run(capsys, "advise", path, "--for", "1ms", "--json")[1])
    assert said["lateness_ms"] is None


@pytest.mark.parametrize(
    "arguments", [["--target", "100%"], ["--at", "2001-01-01T00:00:00Z"], ["--horizon", "5m"], ["--target", "nan"]]
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "advise", FLIGHTS, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
