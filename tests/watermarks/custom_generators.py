"""Generators as a user would write them: plain classes with the two entry points."""


class FiveBehind:
    """What `bounded` does with a lateness of 5 ms."""

    def __init__(self) -> None:
        self.greatest: int | None = None

    def on_event(self, timestamp: int) -> int | None:
        """See one record."""
        self.greatest = timestamp if self.greatest is None else max(self.greatest, timestamp)
        return None

    def on_periodic_emit(self) -> int | None:
        """The watermark now."""
        return None if self.greatest is None else self.greatest - 6


class EveryOther:
    """Emits at every second record, in source order, that record's timestamp; nothing periodically."""

    def __init__(self) -> None:
        self.seen = 0

    def on_event(self, timestamp: int) -> int | None:
        """See one record."""
        self.seen += 1
        return timestamp if self.seen % 2 == 0 else None

    def on_periodic_emit(self) -> int | None:
        """Nothing."""
        return None
