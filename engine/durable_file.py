"""Replaces a file in one step: readers, and a restart after a crash, find either the old content or the new one."""

import os
from contextlib import suppress
from pathlib import Path


def replace_file(path: Path, content: bytes, *, sync: bool = False) -> None:
    """Make `content` the content of `path`; with `sync` it survives a power failure. OSError on failure.

    The new content is first written to `<path>.tmp`, which is removed on failure.
    """
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise
    if sync:
        sync_path(path.parent)


def sync_path(path: Path) -> None:
    """Sync a file's content, or a directory's list of files, so that it survives a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
