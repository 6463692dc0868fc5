"""`python -m wmtop.tui.cli`."""

from .main import main

main()
