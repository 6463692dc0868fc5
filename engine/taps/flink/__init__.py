"""A running Flink job, read from its JobManager's REST API: read-only, nothing to install in the job."""
