"""Ratio benchmarks: each runs both sides in one run."""
