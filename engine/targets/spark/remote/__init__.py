"""Checkpoints and event logs in object stores and elsewhere: copied as they grow, then read like local ones."""
