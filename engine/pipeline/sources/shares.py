"""How the parts of a batch are divided among tasks."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def divided(parts: list[T], tasks: int, size: Callable[[T], int]) -> list[list[T]]:
    """The parts for each of at most `tasks` tasks, of about the same size."""
    shares: list[list[T]] = [[] for _ in range(min(tasks, len(parts)))]
    sizes = [0] * len(shares)
    for part in sorted(parts, key=size, reverse=True):
        least = sizes.index(min(sizes))
        shares[least].append(part)
        sizes[least] += size(part)
    return shares
