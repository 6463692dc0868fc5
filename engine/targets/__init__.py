"""What can be watched: Flink jobs, Spark queries, Kafka topics and groups, published jobs, other engines."""
