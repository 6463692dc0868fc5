"""Where an own run's records come from."""
