"""A running Flink job, seen through the REST API of its JobManager: read-only, nothing to install in the job."""
