"""File locks, which the kernel releases when the process that holds them ends, however it ends."""

import fcntl
from typing import IO


def lock_file(file: int | IO[bytes] | IO[str], *, shared: bool = False) -> None:
    """Lock an open file; waits until no other process holds the lock. OSError if the file system has no locks."""
    fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)


def try_lock_file(file: int | IO[bytes] | IO[str], *, shared: bool = False) -> bool:
    """Lock an open file if no other process holds the lock; returns whether it is locked now. OSError as in
    `lock_file`.
    """
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
