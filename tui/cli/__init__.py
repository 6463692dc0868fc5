"""The command line: the only part that wires engine and screen together."""

from .main import main

__all__ = ["main"]
