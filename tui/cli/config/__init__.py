"""The configuration file: what it may contain, what is in force, and the command that shows it."""
