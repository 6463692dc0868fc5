"""`python -m tests.torture.guided DIRECTORY SEED INPUTS`: each parser under atheris, in a process of its own.

DIRECTORY/NAME gets the fuzzer's log, the inputs that reached new code, and the one that failed (`crash-…`).
"""

import os
import sys
from pathlib import Path

import atheris  # pyright: ignore[reportMissingImports]

with atheris.instrument_imports(include=["wmtop"]):
    from .fuzz import failure
    from .parsers import CORPUS, PARSERS

MAX_BYTES = 65_536
LONGEST_WORD = 64
"""What the fuzzer takes in a dictionary (bytes)."""


def main() -> None:
    """The parsers one after the other; the fuzzer ends its process, so that each has a fork."""
    directory, seed, inputs = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    failed = False
    for name in PARSERS:
        child = os.fork()
        if child == 0:
            _fuzz(name, directory / name, seed, inputs)
        failed |= os.waitpid(child, 0)[1] != 0
    sys.exit(failed)


def _fuzz(name: str, directory: Path, seed: str, inputs: str) -> None:
    parser = PARSERS[name]
    found = directory / "found"
    found.mkdir(parents=True)
    log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    words = [word for word in parser.words if len(word) <= LONGEST_WORD]
    dictionary = directory / "words"
    dictionary.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n' for word in words))

    def take(data: bytes) -> None:
        if why := failure(parser, data):
            raise AssertionError(why)

    options = [f"-seed={seed}", f"-runs={inputs}", f"-max_len={MAX_BYTES}", f"-artifact_prefix={directory}/"]
    atheris.Setup([sys.argv[0], *options, f"-dict={dictionary}", str(found), str(CORPUS / name)], take)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
