"""Imports for a screen, without the garbage collector: it would search what they make, of which nothing is garbage."""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def loading() -> Generator[None]:
    """Do not collect garbage in this block, and leave what it makes out of every later collection."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()
