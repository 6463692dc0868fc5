"""Observations from queries that others run: what they leave on disk, read without a JVM and without writing."""
