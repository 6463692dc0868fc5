"""`python -m wmtop.tui.cli`."""

from . import main

main()
