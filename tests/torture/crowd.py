"""Viewers of an engine's socket: those that read all it sends, and those that do what no viewer should."""

import asyncio
import random
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from wmtop.engine.feed.client import Client
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.system.errors import RunError

from .rounds import expect

CURRENT_WITHIN_S = 60.0
"""How old a snapshot may be when a viewer that reads gets it: far beyond what it is on a busy machine."""
CONNECTIONS = 1_200
"""What the hoarder opens; more descriptors than a process usually may have (1,024)."""


Act = Callable[[Path, random.Random, Event, Counter[str]], None]


class Watched:
    """What the viewers that read have seen of one engine."""

    def __init__(self) -> None:
        self.records = 0
        self.delay_s = 0.0
        self.snapshots = 0
        self.visits = 0
        self.staying = 0
        """Viewers that stay, and have seen a snapshot."""


async def watch(path: Path, watched: Watched, *, at_most: int | None = None) -> Snapshot | None:
    """Read all snapshots, or `at_most` so many; the last one. TortureError if one is old, or older than one before it.

    RunError if the stream ends without the engine's `End`.
    """
    last: Snapshot | None = None
    before, seen = watched.records, 0
    watched.visits += 1
    async with aclosing(Client(path, read_only=True).messages()) as messages:
        async for message in messages:
            if not isinstance(message, Snapshot) or message.state == "starting":
                continue
            read = message.totals.records or 0
            expect(read >= before, f"a snapshot of {read} records after one of {before}, state {message.state}")
            before = read
            if last is not None and message.wall_ms is not None:  # the first one may be from before this viewer came
                watched.delay_s = max(watched.delay_s, time.time() - message.wall_ms / 1_000)
            watched.staying += last is None and at_most is None
            last, seen = message, seen + 1
            watched.records = max(watched.records, read)
            watched.snapshots += 1
            if seen == at_most:
                break
    return last


async def come_and_go(path: Path, watched: Watched, chance: random.Random, is_over: Callable[[], bool]) -> None:
    """Read a few snapshots, and come again, until the engine ends."""
    while not is_over():
        with suppress(RunError):  # it may end meanwhile; those that stay notice a connection that is lost
            await watch(path, watched, at_most=chance.randint(1, 4))
        await asyncio.sleep(chance.uniform(0, 0.3))


# Each of these works on a thread of its own, with its own generator, until `over` is set.


def never_reads(path: Path, _: random.Random, over: Event, counts: Counter[str]) -> None:
    """Connect, and read nothing."""
    with connection(path):
        counts["connections that never read"] += 1
        over.wait()


def floods(path: Path, chance: random.Random, over: Event, counts: Counter[str]) -> None:
    """Send what is no command as fast as it goes; read the replies, or do not."""
    data = chance.choice(FLOODS)(chance)
    reads = chance.random() < 0.7
    while not over.is_set():
        with suppress(OSError), connection(path) as flood:
            flood.settimeout(0.2)
            while not over.is_set():
                try:
                    counts["kB sent by floods"] += flood.send(data) // 1_000
                except TimeoutError:
                    if not reads:
                        continue
                if reads:
                    with suppress(BlockingIOError):
                        if not flood.recv(1 << 16, socket.MSG_DONTWAIT):
                            break
        counts["floods that were cut off"] += not over.is_set()
        over.wait(0.01)


def opens_and_closes(path: Path, chance: random.Random, over: Event, counts: Counter[str]) -> None:
    """Connect and leave as fast as it goes, sometimes in the middle of a line."""
    while not over.is_set():
        with suppress(OSError), connection(path) as one:
            if chance.random() < 0.5:
                one.send(b'{"kind":"set","id":')
            counts["connections opened and closed"] += 1
        over.wait(0.002)


def hoards(path: Path, _: random.Random, over: Event, counts: Counter[str]) -> None:
    """A process that opens more connections than an engine has descriptors, and keeps them."""
    words = [sys.executable, "-c", HOARD, str(path), str(CONNECTIONS)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as hoarder:
        assert hoarder.stdout is not None
        counts["connections hoarded"] += int(hoarder.stdout.readline())
        counts["hoarders that had come"] += 1
        over.wait()
        hoarder.communicate()  # its input ends, and so does it


HOARD = """
import resource, socket, sys, time
path, number = sys.argv[1], int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
held = []
for _ in range(number):
    one = socket.socket(socket.AF_UNIX)
    one.settimeout(5)
    try:
        one.connect(path)
        held.append(one)
    except OSError:  # the engine takes no more for now
        time.sleep(0.01)
print(len(held), flush=True)
sys.stdin.read()
"""


@contextmanager
def connection(path: Path) -> Generator[socket.socket]:
    """A connection; a socket without one if the engine takes none for now."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(5)
        with suppress(OSError):
            one.connect(str(path))
        yield one


def noise(chance: random.Random) -> bytes:
    return chance.randbytes(1 << 16).replace(b"\n", b" ")


def short_lines(chance: random.Random) -> bytes:
    return b"\n" * (1 << 15) if chance.random() < 0.5 else b"x\n" * (1 << 15)


def wrong_commands(_: random.Random) -> bytes:
    wrong = (b'{"kind":"set","id":1,"lateness_ms":-1}\n', b'{"kind":"set","id":"a"}\n', b'{"kind":"sell","id":7}\n')
    return b"".join(wrong) * 500


def deep(_: random.Random) -> bytes:
    return (b"[" * 15_000 + b"\n") * 4


FLOODS = (noise, short_lines, wrong_commands, deep)


@contextmanager
def crowd(path: Path, acts: list[Act], chance: random.Random) -> Generator[Counter[str]]:
    """Those that misbehave, each on a thread of its own, and what they did."""
    over, counts = Event(), Counter[str]()
    threads = [
        Thread(target=act, args=(path, random.Random(chance.random()), over, counts), daemon=True) for act in acts
    ]
    for thread in threads:
        thread.start()
    try:
        yield counts
    finally:
        over.set()
        for thread in threads:
            thread.join()
