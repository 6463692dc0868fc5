"""What is wrong with a stream, how bad that is, and the numbers that show it: pure rules over snapshots."""

from .diagnose import RULES, accounts_for, diagnose
from .finding import Finding, Fix, FixCode, Severity

__all__ = ["RULES", "Finding", "Fix", "FixCode", "Severity", "accounts_for", "diagnose"]
