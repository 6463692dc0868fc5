"""`python -m tests.torture PART [--seed N] [--seconds S] [--round N]`: what `make torture` runs."""

import argparse
import os
import sys
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from .rounds import Part, all_rounds, run_rounds

PARTS = {
    "a": ("kills", "processes killed, ended and stopped, also at each fsync and rename; then all is as undisturbed"),
    "b": ("disks", "full, read-only, slow and failing disks, cut states, other versions, clocks that jump"),
    "c": ("fuzz", "inputs made of real ones through each parser of outside bytes"),
    "d": ("servers", "JobManager, History Server, store and broker that hang, fail or lie, before each command"),
    "e": ("viewers", "50 viewers of a run, one that never reads, one that floods, some that hoard; tabs of serve"),
    "g": ("canaries", "secrets of each kind through each command, searched in all that is left behind"),
    "h": ("arrivals", "files written slowly, late, twice or not at all, and a run that is killed while they come"),
    "i": ("cut_logs", "logs of a real broker cut and written again, topics recreated, a run killed meanwhile"),
    "j": ("clocks", "clocks that differ or are set, and gaps in the watching: no verdict may follow from one"),
}
"""By its letter: the module, which has the class `Torture`, and what it does."""
SECONDS = 1_200.0


def main() -> None:
    """Run a part; exit code 1 on a failure."""
    about = "; ".join(f"{letter}: {what}" for letter, (_, what) in PARTS.items())
    options = argparse.ArgumentParser(prog="make torture", description=about)
    options.add_argument("part", choices=PARTS)
    options.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    options.add_argument("--seconds", type=float, default=SECONDS)
    options.add_argument("--round", type=int, help="only this round of the seed")
    given = options.parse_args()
    name, what = PARTS[given.part]
    print(f"part {given.part}, seed {given.seed}, {given.seconds:g} s: {what}", flush=True)
    counts: Counter[str] = Counter()
    started = time.monotonic()
    with TemporaryDirectory(prefix="wmtop-torture-", dir="/tmp") as directory:
        os.environ.setdefault("WMTOP_RUN_DIR", f"{directory}/engines")
        part: Part = import_module(f".{name}", __package__).Torture(Path(directory))
        numbers = all_rounds() if given.round is None else [given.round]
        try:
            failed = run_rounds(part, given.seed, numbers, given.seconds, counts)
        finally:
            part.close()
    print(f"part {given.part}, seed {given.seed}: {time.monotonic() - started:.0f} s; {counts.pop('rounds', 0)} rounds")
    for counted in sorted(counts):
        print(f"  {counts[counted]:>9,}  {counted}")
    if failed:
        print(f"FAILED {failed} PART={given.part}")
        sys.exit(1)
    print("passed")


if __name__ == "__main__":
    main()
