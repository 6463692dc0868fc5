"""Numbers, durations, times and names as text."""
