"""`wmtop advise` as a user calls it: on a recording, and on what holds no evidence."""

import json
from pathlib import Path

import pytest

from .checkpoints import checkpoint
from .commands import run

FLIGHTS = Path(__file__).parents[2] / "doctor" / "flights-lateness-3h.rec"


def test_a_recording_gives_advice_and_lines(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "advise", FLIGHTS, "--target", "99.9%", "--json")
    said = json.loads(out)
    assert code == 0
    assert said["records"] == 936
    assert said["lateness"]["late_share"] <= 0.001 < said["current"]["late_share"]
    assert set(said["lines"]) == {"spark", "flink_java", "flink_sql", "kafka_streams"}
    assert run(capsys, "advise", FLIGHTS)[0] == 0


def test_what_has_no_evidence_exits_with_3_and_says_how_to_get_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = checkpoint(tmp_path / "orders", 7)
    code, out, _ = run(capsys, "advise", path, "--for", "1ms")
    assert (code, "publish(spark)" in out) == (3, True)
    said = json.loads(run(capsys, "advise", path, "--for", "1ms", "--json")[1])
    assert said["lateness_ms"] is None


@pytest.mark.parametrize(
    "arguments", [["--target", "100%"], ["--at", "2001-01-01T00:00:00Z"], ["--horizon", "5m"], ["--horizon", "soon"]]
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "advise", FLIGHTS, *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
