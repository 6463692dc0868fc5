"""A Spark query, watched by its checkpoint, its event log or what it publishes."""


def known(*numbers: int | None) -> list[int]:
    """Those that are known."""
    return [number for number in numbers if number is not None]
