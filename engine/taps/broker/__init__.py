"""Facts from a Kafka broker about a topic, a group or the partitions that a query reads."""
