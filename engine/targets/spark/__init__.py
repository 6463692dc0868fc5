"""A Spark query, watched by its checkpoint, its event log or what it publishes."""
