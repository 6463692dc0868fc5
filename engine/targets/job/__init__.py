"""The two lines that make a job visible: `publish` and `tap`."""
