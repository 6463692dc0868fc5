"""An attached Spark query: its checkpoint, event log or own reports, read without a JVM and merged into snapshots."""
