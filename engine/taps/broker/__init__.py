"""What a Kafka broker shows of a topic, a group or the partitions that a query reads."""
