"""What a Spark event log shows, while it grows and after its end."""
