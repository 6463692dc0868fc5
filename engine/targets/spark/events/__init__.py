"""Events of a streaming query, from an event log or from the job itself."""
