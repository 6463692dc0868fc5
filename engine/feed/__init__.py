"""The stream between an engine and those who look at it: codec, publisher, client, recording, run directory."""
