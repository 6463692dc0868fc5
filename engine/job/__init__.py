"""The two lines for a job that wants to be seen: `publish` and `tap`."""
