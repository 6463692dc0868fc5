"""A Kafka topic or consumer group."""
