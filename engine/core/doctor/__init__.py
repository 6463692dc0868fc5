"""What is wrong with a stream, what that costs, and the numbers that show it: pure rules over snapshots."""

from .case import Finding, Harm
from .diagnose import RULES, diagnose

__all__ = ["RULES", "Finding", "Harm", "diagnose"]
