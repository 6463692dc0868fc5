"""The demo's Flink: real flights through a real job on this machine."""
