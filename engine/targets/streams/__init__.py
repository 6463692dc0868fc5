"""A consumer group with all its topics, and the Kafka Streams application that it may be, by its commits."""
