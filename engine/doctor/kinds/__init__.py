"""Findings about one kind of target, and what the general rules are to say of it: one module a kind."""
