"""Whether a broker's processes have ended."""

import time
from pathlib import Path


def group(leader: int) -> list[int]:
    """The processes of a process group that have not ended; one whose end nobody asks after (a zombie) has."""
    found: list[int] = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, of_group = path.read_text().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if int(of_group) == leader and state != "Z":
            found.append(int(path.parent.name))
    return found


def wait_until_gone(leader: int | None) -> None:
    assert leader is not None
    deadline = time.monotonic() + 30
    while group(leader) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert group(leader) == []
