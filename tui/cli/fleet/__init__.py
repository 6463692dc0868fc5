"""Many targets at once: which there are, the watcher of all of them, and what is made of it."""
