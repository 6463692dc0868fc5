"""Many targets at once: their list, their watcher, and its output."""
