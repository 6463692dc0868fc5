"""Findings: problems of a stream, their severity and evidence, by pure rules over snapshots."""

from .diagnose import RULES, accounts_for, diagnose
from .finding import Finding, Fix, FixCode, Severity

__all__ = ["RULES", "Finding", "Fix", "FixCode", "Severity", "accounts_for", "diagnose"]
