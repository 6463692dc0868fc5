"""The command line: the only part that wires engine and screen together."""

import sys

if sys.argv[1:] == ["--version"]:
    from .process import print_versions as main
else:
    from .main import main

__all__ = ["main"]
