"""A slow, literal, record-at-a-time computation of the semantics, to hold the engine's core against.

It shares nothing with the core but the settings and the two sentinels, and it is written to be read beside the text.
"""
