"""The engine of an own run: Spark's session, the query, its batches and durable state."""
