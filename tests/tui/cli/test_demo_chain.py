"""`wmtop demo --chain`: what it refuses. What it shows is in `tests/kafka/test_demo_chain.py`."""

import pytest

from .commands import run


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--flink",), "--flink"),
        (("--kafka",), "--kafka"),
        (("--window", "1h"), "--window"),
        (("--late-output", "late"), "--late-output"),
        ((), "terminal"),
    ],
)
def test_what_it_has_no_use_for_is_one_line(
    arguments: tuple[str, ...], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "demo", "--chain", *arguments)
    assert (code, out, err.count("\n"), named in err) == (2, "", 1, True), err
