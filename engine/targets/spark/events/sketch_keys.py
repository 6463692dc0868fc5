"""The keys of many longs at once; separate from `sketch`, because numpy is slow to load."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .sketch import C1, C2, MIX1, MIX2, SEED


def keys_of_longs(longs: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The keys under which a sketch has longs: `key_of` for exactly 8 bytes, for many at once."""
    h1 = longs.astype(np.uint64) * np.uint64(C1)
    h1 = (h1 << np.uint64(31) | h1 >> np.uint64(33)) * np.uint64(C2)
    h1 ^= np.uint64(SEED ^ 8)
    h2 = np.uint64(SEED ^ 8)
    h1 = h1 + h2
    return (_finished(h1) + _finished(h1 + h2)) >> np.uint64(1)


def _finished(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    shift: Any = np.uint64(33)
    words = (words ^ words >> shift) * np.uint64(MIX1)
    words = (words ^ words >> shift) * np.uint64(MIX2)
    return words ^ words >> shift
