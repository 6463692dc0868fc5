"""The doctor's findings in words: what is wrong, its cause, the numbers that show it, and what to do."""

from .diagnoses import SEVERITIES, Diagnosis, diagnoses, explain

__all__ = ["SEVERITIES", "Diagnosis", "diagnoses", "explain"]
