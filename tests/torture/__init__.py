"""Torture that anyone can repeat: `make torture PART=g SEED=7 SECONDS=1200`; docs/reliability.md has the numbers."""
