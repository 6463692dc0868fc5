"""What the parts share: rounds with a seed each, counts, and the first failure with how to repeat it."""

import itertools
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol


class TortureError(AssertionError):
    """wmtop did what it must not do: one paragraph with what was seen."""


def expect(holds: object, seen: str) -> None:
    """TortureError with what was seen, unless it holds; unlike an assertion it is also there under `python -O`."""
    if not holds:
        raise TortureError(seen)


Attack = Callable[[random.Random, Counter[str]], None]
RUN_EVERY = int(os.environ.get("RUN_EVERY", "10"))
"""One round of so many is a run with Spark; another share repeats other rounds."""


def attack(
    chance: random.Random, counts: Counter[str], attacks: Mapping[str, tuple[int, Attack]], run: Attack, run_every: int
) -> None:
    """One of the attacks, by their weights; one time of `run_every` it is `run`."""
    if chance.randrange(run_every) == 0:
        name, chosen = "run", run
    else:
        name = chance.choices(list(attacks), [weight for weight, _ in attacks.values()])[0]
        chosen = attacks[name][1]
    chosen(chance, counts)
    counts[f"rounds of: {name}"] += 1


class Part(Protocol):
    """One kind of torture; what all its rounds share is made when it is created, and goes with `close`."""

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """One attack, drawn from `chance` alone; TortureError if it got through. Counts what it did."""
        ...

    def close(self) -> None:
        """End every process of the part, and remove its files."""
        ...


def run_rounds(part: Part, seed: int, numbers: Iterable[int], seconds: float, counts: Counter[str]) -> str | None:
    """Run rounds by number until `seconds` have passed (at least one); the first failure as text, None if all passed.

    A round draws from its own generator, so that it can be repeated without those before it.
    """
    until = time.monotonic() + seconds
    for number in numbers:
        try:
            part.round(random.Random(f"{seed}/{number}"), counts)
        except TortureError as failure:
            return f"round {number}: {failure}\nrepeat it with SEED={seed} ROUND={number}"
        counts["rounds"] += 1
        if time.monotonic() >= until:
            break
    return None


def short(part: Part, seed: int, rounds: int) -> Counter[str]:
    """A part's short form in the suite: so many rounds, whatever time they take; AssertionError on a failure."""
    counts: Counter[str] = Counter()
    failed = run_rounds(part, seed, range(rounds), float("inf"), counts)
    assert failed is None, failed
    return counts


def all_rounds() -> Iterable[int]:
    """0, 1, 2, …"""
    return itertools.count()
