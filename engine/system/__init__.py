"""What the engine needs of the machine and the outside world: errors, files, locks, Java, stores, times in data."""
