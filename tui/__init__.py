"""wmtop's screen and command line."""
