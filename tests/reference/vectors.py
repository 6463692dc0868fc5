"""The recorded answers of the real Flink 2.3.0 (`tests/vectors`), one dictionary a vector."""

from pathlib import Path
from typing import Any

import msgspec

_FOLDER = Path(__file__).parent.parent / "vectors"


def load(kind: str) -> list[dict[str, Any]]:
    """All vectors of a kind: valve, generator, multiplexer, window."""
    lines = (_FOLDER / f"{kind}.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line) for line in lines]
