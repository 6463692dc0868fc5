"""The stream between an engine and its viewers: codec, publisher, client, recording, run directory."""
