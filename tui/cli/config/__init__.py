"""The configuration file: what may stand in it, what is in force, and the command that shows it."""
