"""Security of a Kafka client: properties files, SASL, TLS, key stores."""
