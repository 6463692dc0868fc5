"""The short form of `make torture PART=g`, and that a canary is found wherever it may be."""

import base64
import io
import random
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from wmtop.engine.system.zstd import compress

from . import canaries
from .canaries import KINDS, Torture, contents, forms
from .rounds import TortureError, short

MARK = "abcDEF0123456789wxyz"


def as_it_is(data: bytes) -> bytes:
    return data


def in_a_frame(data: bytes) -> bytes:
    return compress(data)


def in_a_second_frame(data: bytes) -> bytes:
    return compress(b"x") + compress(data)


@pytest.mark.parametrize("before", ["", "a", "ab"])
@pytest.mark.parametrize("packed", [as_it_is, in_a_frame, in_a_second_frame])
def test_a_mark_is_found_in_every_form(before: str, packed: Callable[[bytes], bytes]) -> None:
    text = f"{before}{MARK}!".encode()
    for shown in (text, base64.b64encode(text), text.hex().encode()):
        zipped = io.BytesIO()
        with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("a", packed(shown))
        for data in (packed(shown), zipped.getvalue()):
            assert any(form in content for content in contents(data) for form in forms(MARK))


def test_a_command_that_shows_its_secret_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canaries, "RUN", "import os; print(dict(os.environ))")
    monkeypatch.setattr(canaries, "CRASHES", dict.fromkeys(("http", "kafka", "s3"), "\n"))
    monkeypatch.setattr(canaries, "FROM_CONFIG", set[str]())
    monkeypatch.setattr(canaries, "COMMANDS", {"check": "check TARGET"})
    monkeypatch.setattr(canaries, "KINDS", {"Flink token": KINDS["Flink token"]})
    chance = next(r for n in range(100) if _crashes(r := random.Random(n)))
    torture = Torture(tmp_path)
    try:
        with pytest.raises(TortureError, match="stdout"):
            torture.round(chance, Counter())
    finally:
        torture.close()


def _crashes(chance: random.Random) -> bool:
    """Whether the round of this generator is one with a crash; the generator is as it was."""
    state = chance.getstate()
    chance.choices("ab", k=20)
    for _ in range(2):
        chance.choice(canaries.EDGES)
    chance.randrange(35)
    chance.choice(["a"])
    chance.choice(["a"])
    crashes = chance.random() < 0.25
    chance.setstate(state)
    return crashes


def test_no_secret_is_left_behind(tmp_path: Path) -> None:
    torture = Torture(tmp_path)
    try:
        assert short(torture, 7, 3)["rounds"] == 3
    finally:
        torture.close()
