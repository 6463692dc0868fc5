"""Observations from existing queries: what they leave on disk, read without a JVM and without writing."""
