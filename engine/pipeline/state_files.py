"""What a state directory holds, by name: read before an engine starts, so that nothing of the engine is imported."""

from pathlib import Path

import msgspec

OUTPUTS = "outputs.json"


def own_outputs(path: Path | None) -> list[Path]:
    """The files that the run with the state directory `path` has written so far; none if not known."""
    if path is None:
        return []
    try:
        return list(map(Path, msgspec.json.decode((path / OUTPUTS).read_bytes(), type=list[str])))
    except (OSError, ValueError):
        return []


def own_files(path: Path | None) -> list[Path]:
    """The files of a state directory; no output may be one of them."""
    names = ("state.json", "checkpoint", "lock", "staged", OUTPUTS)
    return [] if path is None else [path / name for name in names]
