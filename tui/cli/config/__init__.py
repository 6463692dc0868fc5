"""The configuration file: its format, the values in force, and the command that shows them."""
