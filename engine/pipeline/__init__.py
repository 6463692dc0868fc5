"""Spark: session, sources, the per-batch aggregation, the query and its durable state."""
