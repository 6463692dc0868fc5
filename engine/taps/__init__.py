"""Observes existing queries by the files they leave, read without a JVM and without writing."""
