"""What the doctor has found, in words: what is wrong and costs, the numbers that show it, why, and what mends it."""

from .told import HARMS, Diagnosis, diagnoses, told

__all__ = ["HARMS", "Diagnosis", "diagnoses", "told"]
