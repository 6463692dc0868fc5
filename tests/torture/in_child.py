"""Runs in a process under attack before its `main`, as text; nothing here imports wmtop before a fault needs it."""

import io
import os
import signal
import time
import zipfile
from collections.abc import Callable
from typing import Any

POINTS = ("fsync", "replace", "rename", "write")
"""`write`: into a recording, and of a report's parts into its zip; half of it is written before a kill."""


def count_calls(name: str, act: Callable[[Callable[[], Any]], Any]) -> None:
    """Have `act` called with each call of `os.<name>`."""
    call = getattr(os, name)
    setattr(os, name, lambda *args, **options: act(lambda: call(*args, **options)))


def count_writes(act: Callable[[Callable[[], Any]], Any]) -> None:
    """Have `act` called twice with each write: with its first half, and with the rest."""
    from wmtop.engine.feed import recording_writer

    def write(file: io.FileIO, data: bytes) -> None:
        half = len(data) // 2
        act(lambda: file.write(data[:half]))
        act(lambda: file.write(data[half:]))

    recording_writer._write_all = write  # pyright: ignore[reportPrivateUsage]
    into_zip = zipfile.ZipFile.write
    zipfile.ZipFile.write = lambda self, *args, **options: act(lambda: into_zip(self, *args, **options))


def kill_at(nth: int, *, before: bool, kind: int, whole_group: bool, reached: str) -> None:
    """Send a signal to this process (with `whole_group` to all of its group) at the n-th call of all `POINTS`."""
    calls = iter(range(1, 1 << 60))

    def act(call: Callable[[], Any]) -> Any:
        is_it = next(calls) == nth
        if is_it and before:
            strike()
        result = call()
        if is_it and not before:
            strike()
        return result

    def strike() -> None:
        os.close(os.open(reached, os.O_CREAT | os.O_WRONLY))
        os.kill(0 if whole_group else os.getpid(), kind)
        if kind != signal.SIGSTOP:
            time.sleep(0.2)  # a kill of the group may reach this process last

    count_all(act)


def fail_from(nth: int, *, error: int, calls: int) -> None:
    """Have the n-th call of all `POINTS` fail with an error of the system, and as many further calls."""
    numbers = iter(range(1, 1 << 60))

    def act(call: Callable[[], Any]) -> Any:
        if nth <= next(numbers) < nth + calls:
            raise OSError(error, os.strerror(error))
        return call()

    count_all(act)


def slow_down(seconds: float) -> None:
    """Have each of the `POINTS` wait first."""

    def act(call: Callable[[], Any]) -> Any:
        time.sleep(seconds)
        return call()

    count_all(act)


def count_all(act: Callable[[Callable[[], Any]], Any]) -> None:
    """Have `act` called with each call of all `POINTS`."""
    for name in ("fsync", "replace", "rename"):
        count_calls(name, act)
    count_writes(act)


def step_clock(nth: int, by_s: float) -> None:
    """Have the wall clock jump at its n-th reading; the monotonic clock goes on."""
    readings = iter(range(1, 1 << 60))
    seconds, nanoseconds = time.time, time.time_ns
    time.time = lambda: seconds() + by_s * (next(readings) >= nth)
    time.time_ns = lambda: nanoseconds() + int(by_s * 1e9) * (next(readings) >= nth)


def fill_at(limit: int) -> None:
    """Have no file of this process grow beyond so many bytes; EFBIG, as for a full disk ENOSPC."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def few_descriptors(number: int) -> None:
    """Let this process have so many descriptors; those that it starts may ask for more."""
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (number, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
