"""Kafka: client settings, what a cluster says of topics and groups, and a broker of our own for demos and tests."""
