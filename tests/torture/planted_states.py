"""State directories that another user could have prepared: code in the state, and owners and modes that let others in.

Each is refused in one line, and no code of it is run; put right again, the state resumes as it was saved.
"""

import os
import pickle
import random
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace
from wmtop.engine.watermarks.generators import CustomGenerator

from .cut_states import Saved
from .rounds import expect

ANOTHER_UID = 65_534
STRATEGIES = (
    {"strategy": "custom", "factory": "posix:getpid", "lateness_ms": None},
    {"strategy": "punctuated", "marker": "reflect('java.lang.System', 'exit', 1)", "lateness_ms": None},
)


class Bomb:
    """What it is unpickled to makes a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str, int]]:
        return os.open, (str(self.marker), os.O_CREAT | os.O_WRONLY)


def plant(path: Path, chance: random.Random, counts: Counter[str]) -> None:
    """Prepare a state directory in each way, once."""
    saved = Saved(path, chance)
    expect(saved.resumed() is None, "what is whole is refused")
    _plant_code(saved, chance, counts)
    _let_others_in(saved, chance, counts)
    expect(saved.resumed() is None, "what is whole again is refused")


def _plant_code(saved: Saved, chance: random.Random, counts: Counter[str]) -> None:
    marker, file = saved.path / "code-was-run", saved.path / "state" / "state.json"
    whole = file.read_bytes()
    monitor = saved.state.monitor
    settings, channel = monitor.settings, chance.choice(monitor.channels)
    generator = channel.generator
    for changed in ({}, *STRATEGIES):
        has_bomb = not changed or chance.random() < 0.7
        channel.generator = CustomGenerator(pickle.dumps(Bomb(marker))) if has_bomb else generator
        monitor.settings, monitor.resend = replace(settings, **changed), True
        saved.directory.lock()
        saved.directory.save(saved.state)
        saved.directory.unlock()
        expect(saved.resumed() is not None, f"a state with {changed or 'a pickled generator'} is loaded")
        expect(not marker.exists(), f"code of a state with {changed or 'a pickled generator'} was run")
        counts["planted code refused"] += 1
    channel.generator, monitor.settings, monitor.resend = generator, settings, False
    file.write_bytes(whole)


def _let_others_in(saved: Saved, chance: random.Random, counts: Counter[str]) -> None:
    top = saved.path / "state"
    inside = chance.choice(sorted(top.rglob("*")))
    for path in (top, inside):
        mode = stat.S_IMODE(path.stat().st_mode)
        path.chmod(mode | stat.S_IWOTH)
        top.chmod(stat.S_IMODE(top.stat().st_mode) | 0o055)
        expect("chmod -R go-w" in (saved.resumed() or ""), f"{path} with mode {path.stat().st_mode:o} is trusted")
        path.chmod(mode)
        counts["places that others can write refused"] += 1
        if os.geteuid() == 0:
            os.chown(path, ANOTHER_UID, -1)
            expect("another user" in (saved.resumed() or ""), f"{path} of another user is trusted")
            os.chown(path, 0, -1)
            counts["places of another user refused"] += 1
    top.chmod(0o700)
    link = top / "checkpoint" / "link"
    link.symlink_to(saved.path)
    expect("is a link" in (saved.resumed() or ""), "a link in a state directory is followed")
    link.unlink()
    counts["links refused"] += 1
