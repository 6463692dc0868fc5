"""zstd: Python 3.14's own module or its backport, and what neither has: content of several frames, a frame's header."""

import sys
from collections.abc import Iterator
from typing import NamedTuple

if sys.version_info >= (3, 14):
    from compression.zstd import CompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError, compress
else:
    from backports.zstd import CompressionParameter, ZstdCompressor, ZstdDecompressor, ZstdError, compress

__all__ = ["CompressionParameter", "FrameHeader", "Frames", "ZstdCompressor", "ZstdError", "compress", "frame_header"]

MAGIC = b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 18
_DICTIONARY_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)


class Frames:
    """Decompresses frames one after the other as their bytes come; an unfinished one gives what is complete of it."""

    def __init__(self, *, only_first: bool = False) -> None:
        self._only_first = only_first
        self._frame = ZstdDecompressor()

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The further content, in pieces of bounded size; ZstdError for what is not zstd."""
        while True:
            if self._frame.eof:
                if self._only_first or not data:
                    return
                self._frame = ZstdDecompressor()
            if piece := self._frame.decompress(data, _PIECE):
                yield piece
            if self._frame.eof:
                data = self._frame.unused_data
            elif self._frame.needs_input:
                return
            else:
                data = b""


class FrameHeader(NamedTuple):
    """The length (bytes) of a frame's header with its magic number, and whether a checksum ends the frame."""

    size: int
    has_checksum: bool


def frame_header(head: bytes) -> FrameHeader | None:
    """The header of the frame that begins with `head` (RFC 8878, 3.1.1.1); None: it is cut short or not valid."""
    if len(head) < len(MAGIC) + 1:
        return None
    descriptor = head[len(MAGIC)]
    is_single, is_reserved = bool(descriptor >> 5 & 1), bool(descriptor >> 3 & 1)
    content_size = _CONTENT_SIZE_BYTES[descriptor >> 6] or is_single
    size = len(MAGIC) + 1 + (not is_single) + _DICTIONARY_BYTES[descriptor & 3] + content_size
    return None if is_reserved or size > len(head) else FrameHeader(size, bool(descriptor >> 2 & 1))
