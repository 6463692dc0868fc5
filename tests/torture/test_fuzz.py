"""The short form of `make torture PART=c`, and that what a parser must not do is noticed."""

import contextlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from . import fuzz
from .fuzz import Torture, failure, inputs_of
from .parsers import CORPUS, PARSERS, Parser
from .rounds import short


def test_each_parser_has_a_corpus_that_it_takes() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(PARSERS)
    assert sum(path.stat().st_size for path in CORPUS.rglob("*")) < 1 << 20
    for name, parser in PARSERS.items():
        taken = 0
        for data in inputs_of(name):
            with contextlib.suppress(*parser.raises):  # `spark operator` has formats that are refused
                parser.parse(data)
                taken += 1
        assert taken, name


def foreign_error(data: bytes) -> None:
    raise KeyError(data)


def two_lines(data: bytes) -> None:
    raise msgspec.DecodeError("a\nb")


def endless(data: bytes) -> None:
    while True:
        pass


@pytest.mark.parametrize(
    ("parse", "why"), [(foreign_error, "KeyError"), (two_lines, "one printable line"), (endless, "CPU")]
)
def test_what_a_parser_must_not_do_is_noticed(
    parse: Callable[[bytes], object], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fuzz, "TAKES_S", 0.1)
    assert why in (failure(Parser(parse, (msgspec.DecodeError,)), b"x") or "")
    assert failure(Parser(bytes), b"x") is None


def none_installed(name: str) -> None:
    """No module is found."""


def test_no_input_breaks_a_parser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "find_spec", none_installed)
    torture = Torture(tmp_path)
    try:
        assert short(torture, 7, 3)["inputs"] == 3 * fuzz.INPUTS * len(PARSERS)
    finally:
        torture.close()
