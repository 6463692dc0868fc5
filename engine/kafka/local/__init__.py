"""A real Kafka broker on this machine, and the feeder of its demo topic."""
