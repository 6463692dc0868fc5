"""(c) Every parser of outside bytes, with inputs made of real ones: guided by coverage where atheris is installed.

A parser gives a result or one of its errors, in one printable line, and within `TAKES_S` of CPU; all else is a failure.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from .parsers import CORPUS, PARSERS, SCRATCH, Parser
from .rounds import TortureError, expect

TAKES_S = 10.0
INPUTS = 20
"""Inputs of each parser in a round."""
GUIDED_INPUTS = 1_500
"""The same, where coverage guides: a round begins with reading the code, which takes seconds."""
KEPT_UNDER = 400
"""Longest input (bytes) that is shown; a longer one becomes a file."""
_VALUE = re.compile(rb'-?\d+|"[^"]*"')


class Torture:
    """The corpus, and which way inputs are made of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory / "round"
        self._guided = find_spec("atheris") is not None
        print(f"inputs: {'guided by coverage (atheris)' if self._guided else 'mutated; atheris is not installed'}")
        self._corpus = {name: inputs_of(name) for name in PARSERS}

    def close(self) -> None:
        shutil.rmtree(SCRATCH, ignore_errors=True)

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """So many inputs for each parser."""
        if self._guided:
            self._guided_round(chance, counts)
            return
        for name, parser in PARSERS.items():
            for _ in range(INPUTS):
                data = mutated(chance, chance.choice(self._corpus[name]), parser.words)
                if why := failure(parser, data):
                    raise TortureError(f"{name}: {why}\ninput: {shown(data)}")
            counts[name] += INPUTS
            counts["inputs"] += INPUTS

    def _guided_round(self, chance: random.Random, counts: Counter[str]) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._directory.mkdir()
        command = [sys.executable, "-m", "tests.torture.guided", str(self._directory), str(chance.getrandbits(31))]
        scratch = os.environ | {"TMPDIR": str(self._directory)}  # the fuzzer ends without removing what is in it
        with (self._directory / "said").open("w+") as said:
            code = subprocess.run([*command, str(GUIDED_INPUTS)], stdout=said, stderr=said, env=scratch).returncode
        for name in PARSERS:
            log = self._directory / name / "log"
            text = log.read_text(errors="replace") if log.exists() else (self._directory / "said").read_text()
            done = re.search(r"Done (\d+) runs", text)
            for crash in sorted(log.parent.glob("crash-*")):
                raise TortureError(f"{name}: {text[-1_500:]}\ninput: {shown(crash.read_bytes())}")
            expect(done is not None, f"{name}: the fuzzer ended with {code}: {text[-1_500:]}")
            assert done is not None
            counts[name] += int(done[1])
            counts["inputs"] += int(done[1])


def inputs_of(name: str) -> Sequence[bytes]:
    """A parser's part of the corpus."""
    return [path.read_bytes() for path in sorted((CORPUS / name).iterdir())]


def failure(parser: Parser, data: bytes) -> str | None:
    """What is wrong with how the parser takes the bytes."""
    try:
        with _limited():
            parser.parse(data)
    except parser.raises as error:
        if parser.is_shown and not str(error).isprintable():
            return f"an error that is not one printable line: {error!r}"
    except (Exception, RecursionError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def mutated(chance: random.Random, data: bytes, words: Sequence[bytes]) -> bytes:
    """An input with up to four pieces replaced, inserted or removed, sometimes cut short."""
    made = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randint(0, len(made))
        size = chance.choice((0, 0, 1, 2, 4, 8, 16))
        values = [match.span() for match in _VALUE.finditer(bytes(made[:4_000]))]
        if values and chance.random() < 0.3:
            at, end = chance.choice(values)
            size = end - at
        noise = not words or chance.random() < 0.4
        made[at : at + size] = chance.randbytes(chance.randint(0, 4)) if noise else chance.choice(words)
    return bytes(made[: chance.randint(0, len(made))] if chance.random() < 0.1 else made)


def shown(data: bytes) -> str:
    """The bytes, or the file where they are kept."""
    if len(data) <= KEPT_UNDER:
        return repr(data)
    descriptor, path = tempfile.mkstemp(prefix="wmtop-torture-input-")
    os.write(descriptor, data)
    os.close(descriptor)
    return path


class SlowError(Exception):
    """A parser took too long."""


@contextmanager
def _limited() -> Generator[None]:
    def stop(*_: object) -> NoReturn:
        raise SlowError(f"more than {TAKES_S:g} s of CPU")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, TAKES_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
