"""Events of a streaming query, wherever they come from: event log or the job itself."""
