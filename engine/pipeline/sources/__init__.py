"""Sources of records, one file each."""
