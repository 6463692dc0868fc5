"""A Flink job, watched by its REST API."""
