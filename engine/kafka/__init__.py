"""Kafka: client settings, facts about topics and groups, and a local broker for demos and tests."""
