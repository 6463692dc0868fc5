"""State directories without Spark: each file cut at every byte, the state with each byte changed, other versions;
what is loaded is as it was saved.
"""

import json
import random
from collections import Counter
from pathlib import Path

import msgspec
from wmtop.engine.run.durable_state import STATE_VERSION, FiringsFile, SavedState, StateDirectory
from wmtop.engine.run.late_output import LateDirectory
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.system.files import own_outputs
from wmtop.engine.watermarks.monitor import new_monitor, to_save
from wmtop.engine.watermarks.settings import Settings
from wmtop.engine.watermarks.window_operator import Firing

from .rounds import expect

SOURCE = {"kind": "replay", "files": ["a.parquet"]}
BATCH = 3


class Saved:
    """A state directory with all its files, as a run of some batches leaves them."""

    def __init__(self, path: Path, chance: random.Random) -> None:
        self.path = path
        self.settings = Settings()
        self.directory = StateDirectory(path / "state")
        self.directory.lock()
        self.firings = path / "firings.ndjson"
        self.late = path / "late"
        for name, content in {"offsets": b'v1\n{"batchTimestampMs":1}\n{"end":7}', "commits": b"v1\n{}"}.items():
            (self.directory.checkpoint / name).mkdir(parents=True)
            for batch in range(BATCH + 1):
                (self.directory.checkpoint / name / str(batch)).write_bytes(content)
        (self.directory.checkpoint / "metadata").write_text(json.dumps({"id": "query"}))
        file = FiringsFile(self.firings, 0)
        file.append([Firing("fire", n, "c", n, n + 1, n, 1, n + 1) for n in range(chance.randint(1, 5))])
        self.monitor = new_monitor(self.settings)
        self.monitor.add_channels([chance.choice(["c", "ü", '"', "\u2028"]) + str(n) for n in range(3)], 0)
        self.monitor.batch = BATCH
        self.state = SavedState(
            source=SOURCE, asked=self.settings, query_id="query", monitor=self.monitor,
            offsets_digest=self.directory.offsets_digest(BATCH), firings_bytes=file.size,
        )  # fmt: skip
        file.close()
        self.directory.save(self.state)
        self.directory.note_outputs([self.firings])
        LateDirectory(str(self.late)).claim("run", own=False, force=False, keep_until=None)
        self.directory.unlock()

    def resumed(self) -> str | None:
        """Lock, load, open the outputs as a run does; what refuses it. AssertionError if it is loaded otherwise than
        it was saved.
        """
        directory = StateDirectory(self.path / "state")
        try:
            directory.lock()
            own_outputs(directory.path)
            loaded = directory.load(SOURCE, self.settings)
            expect(loaded is not None, "a state that was there counts as none")
            assert loaded is not None
            same = encoded(loaded) == encoded(self.state)
            expect(same, "another state is loaded than was saved")
            FiringsFile(self.firings, loaded.firings_bytes, "continue").close()
            expect(self.firings.stat().st_size == loaded.firings_bytes, "firings: another length")
            LateDirectory(str(self.late)).claim("run", own=True, force=False, keep_until=BATCH)
        except (UsageError, RunError) as refusal:
            said = str(refusal)
            expect(said.isprintable() and str(self.path) in said, f"refused with {said!r}")
            return said
        finally:
            directory.unlock()
        return None


def encoded(state: SavedState) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(state, monitor=to_save(state.monitor)))


def cut_everywhere(path: Path, chance: random.Random, counts: Counter[str], names: str = "*") -> None:
    """Cut each file of a state directory (of these `names`) at every byte, and replace its version by others."""
    saved = Saved(path, chance)
    expect(saved.resumed() is None, "what is whole is refused")
    for file in sorted(path.rglob(names)):
        if not file.is_file():
            continue
        name, whole = file.relative_to(path), file.read_bytes()
        for length in range(len(whole)):
            file.write_bytes(whole[:length])
            try:
                refused = saved.resumed()
            except Exception as error:
                expect(False, f"{name} cut at byte {length} of {len(whole)}: {type(error).__name__}: {error}")
                raise
            counts["cuts refused" if refused else "cuts resumed as saved"] += 1
            matters = file.name in ("state.json", "firings.ndjson", "metadata", OWNER_FILE)
            expect(refused or not matters, f"{name} cut at byte {length} of {len(whole)}: it resumes")
        for at in range(len(whole) if file.name == "state.json" else 0):
            file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
            counts["flips refused" if saved.resumed() else "flips resumed as saved"] += 1
        file.write_bytes(whole)
    for version in (STATE_VERSION - 1, STATE_VERSION + 1, 0, -1, chance.getrandbits(70), "6", None, 6.5):
        document = json.loads((path / "state" / "state.json").read_bytes()) | {"version": version}
        file = path / "state" / "state.json"
        whole = file.read_bytes()
        file.write_text(json.dumps(document | {"of": "another version"}))
        refused = saved.resumed()
        expect(refused is not None and "another" in refused, f"version {version!r}: {refused}")
        file.write_bytes(whole)
        counts["versions refused"] += 1
    expect(saved.resumed() is None, "what is whole again is refused")


OWNER_FILE = "_wmtop.json"
