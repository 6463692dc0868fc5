"""Splits a growing log into lines and passes on those with a relevant beginning."""

from collections.abc import Callable

LINE_LIMIT = 64 * 1024 * 1024
"""Longest line (bytes) that is kept: the largest plan or sketch has a few MB."""


class EventLines:
    """Takes pieces of a file; passes on each whole line that begins with one of `starts`."""

    def __init__(self, starts: tuple[bytes, ...], take: Callable[[bytes], None], limit: int = LINE_LIMIT) -> None:
        self.too_long = 0
        """The number of lines left out because of their length."""
        self._starts = starts
        self._take = take
        self._enough = max(map(len, starts))
        self._limit = limit
        self._partial = bytearray()
        self._skipping = False

    @property
    def inside(self) -> bool:
        """Whether the last piece ended in the middle of a line."""
        return self._skipping or bool(self._partial)

    def write(self, piece: bytes) -> int:
        """Take the next piece of the file; returns its size (as a file's `write` does)."""
        first, newline, rest = piece.partition(b"\n")
        self._extend(first)
        if newline:
            self._end()
            *whole, last = rest.split(b"\n")
            for line in whole:
                if line.startswith(self._starts) and self._fits(len(line)):
                    self._take(line)
            self._extend(last)
        return len(piece)

    def forget(self) -> None:
        """Drop an incomplete line: another file comes next."""
        self._partial.clear()
        self._skipping = False

    def _extend(self, piece: bytes) -> None:
        if self._skipping or not piece:
            return
        self._partial += piece
        matters = len(self._partial) < self._enough or self._partial.startswith(self._starts)
        if not matters or not self._fits(len(self._partial)):
            self._partial.clear()
            self._skipping = True

    def _end(self) -> None:
        if not self._skipping and self._partial.startswith(self._starts):
            self._take(bytes(self._partial))
        self.forget()

    def _fits(self, size: int) -> bool:
        self.too_long += size > self._limit
        return size <= self._limit
