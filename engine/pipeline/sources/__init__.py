"""Where records come from, one file each."""
