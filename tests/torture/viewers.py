"""(e) 50 viewers of a run: most read, some come and go, one never reads, one floods, others hoard connections.

Totals, firings and late records are those of an undisturbed run, each viewer that reads stays current to the end, and
the engine's memory is bounded. The same for the browser tabs of `serve`.
"""

import asyncio
import json
import random
import re
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import aiohttp
from wmtop.engine.snapshot import Snapshot

from ..run.test_recovery import BATCHES, applied, command, outcome
from ..test_serve import free_port
from .blows import emptied, fault_program, state_of
from .canaries import RUN
from .crowd import CURRENT_WITHIN_S, Watched, come_and_go, crowd, floods, hoards, never_reads, opens_and_closes, watch
from .killed_runs import Runs, all_below
from .kills import SOURCE, Screen
from .processes import ENDS_WITHIN_S, Command, home
from .rounds import Attack, attack, expect

VIEWERS = 50
STARTS_WITHIN_S = 900.0
MAX_GROWTH_MB = 100
"""What an engine may need more (resident) after its viewers have come."""
MAX_LOG = 1 << 20
"""The longest log (bytes) of a run, whatever its viewers send."""
SLOW_S = 0.1
"""So long each fsync and write of the engine takes, so that there is something to watch."""
DESCRIPTORS = 1_024
"""What a process may have at first on most machines."""
MAX_SERVER_MB = 300
RUN_EVERY = 2
"""One round of so many is a run with Spark."""
TABS = 3
"""That read; each is a process of 100 MB."""
DRAWN_WITHIN_S = 240.0
TAB = "/ws?width=100&height=30"


class Torture:
    """The undisturbed run, and the directory of a round; a short one, since it has a socket."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._round = Path(tempfile.mkdtemp(prefix="wmtop-e-", dir="/tmp"))
        self._runs: Runs | None = None

    def close(self) -> None:
        shutil.rmtree(self._round)

    def round(self, chance: random.Random, counts: Counter[str]) -> None:
        """A run or a web server, and its viewers."""
        attacks: dict[str, tuple[int, Attack]] = {"tabs of serve": (1, self.serve)}
        attack(chance, counts, attacks, self.run, RUN_EVERY)

    def run(self, chance: random.Random, counts: Counter[str]) -> None:
        """A run that ends, or is stopped, before all of its viewers."""
        self._runs = self._runs or Runs(self._directory / "runs")
        run = emptied(self._round)
        further = chance.sample([never_reads, floods, opens_and_closes, hoards], 2)
        ending = chance.choice(["end", "TERM", "stop", "stop"])
        acts = [never_reads, floods, *further]
        what = f"run with {', '.join(act.__name__ for act in acts)}; {ending}"
        arguments = command(self._runs.file, run)
        faults = f"few_descriptors({DESCRIPTORS}); slow_down({SLOW_S})"
        engine = Command(run, arguments[3:], home(run), fault_program(faults, RUN))
        try:
            path = self._socket(engine, run)
            screen = Screen(run, ["attach", path.stem, "--read-only"])
            try:
                with crowd(path, acts, chance) as done:
                    stop_after = chance.randint(0, BATCHES // 2) if ending != "end" else None
                    seen = asyncio.run(self._watch(engine, run, path, chance, ending, stop_after, done, what))
                    expect(engine.wait(ENDS_WITHIN_S), f"{what}: it does not end\n{engine.said()[-1_500:]}")
                screen.quit(what)
                code = screen.process.returncode
                expect(code == 0, f"{what}: exit code {code} of the screen: {screen.shown[-1_500:]!r}")
            finally:
                screen.close()
        finally:
            engine.end()
        self._check(engine, run, ending, seen, what)
        for name, number in (done | seen).items():
            counts[name] = max(counts[name], number) if name.startswith("most") else counts[name] + number
        counts[f"run: {ending}"] += 1
        counts["viewers"] += VIEWERS + len(acts) - 1

    def _socket(self, engine: Command, run: Path) -> Path:
        """The engine's socket, once it has read something."""
        until = time.monotonic() + STARTS_WITHIN_S
        while not (found := list((run / "run").glob("*.sock"))) or applied(run) < 0:
            expect(engine.code is None and time.monotonic() < until, f"it does not start\n{engine.said()[-1_500:]}")
            time.sleep(0.02)
        return found[0]

    async def _watch(
        self,
        engine: Command,
        run: Path,
        path: Path,
        chance: random.Random,
        ending: str,
        stop_after: int | None,
        done: Counter[str],
        what: str,
    ) -> Counter[str]:
        """The viewers that read, until the engine ends; what they saw."""
        watched, coming = Watched(), VIEWERS // 8
        before_mb, before_threads = memory_of(engine), threads_of(engine)
        goers = [
            asyncio.create_task(come_and_go(path, watched, random.Random(chance.random()), lambda: not path.exists()))
            for _ in range(coming)
        ]
        stayers = [asyncio.create_task(watch(path, watched)) for _ in range(VIEWERS - coming - 2)]
        most = Counter[str]()
        stopped = False
        until = time.monotonic() + STARTS_WITHIN_S
        while engine.code is None and time.monotonic() < until:
            most["memory"] = max(most["memory"], memory_of(engine))
            most["threads"] = max(most["threads"], threads_of(engine))
            come = watched.staying == len(stayers) and ("hoards" not in what or done["hoarders that had come"])
            if stop_after is not None and applied(run) >= stop_after and come and not stopped:
                stopped = True
                await asyncio.to_thread(self._stop, engine, run, path.stem, ending, what)
            await asyncio.sleep(0.05)
        ended = await asyncio.wait_for(asyncio.gather(*stayers, return_exceptions=True), ENDS_WITHIN_S)
        for goer in goers:
            goer.cancel()
        left = await asyncio.gather(*goers, return_exceptions=True)
        for result in [*ended, *left]:
            if isinstance(result, AssertionError):
                expect(False, f"{what}: {result}")
            failed = isinstance(result, Exception) and not isinstance(result, asyncio.CancelledError)
            expect(not failed, f"{what}: a viewer ended with {result!r}")
        last = {end.totals.records for end in ended if isinstance(end, Snapshot)}
        expect(len(last) == 1 and None not in ended, f"{what}: the viewers ended at {last} records")
        if ending == "end":
            states = {end.state for end in ended if isinstance(end, Snapshot)}
            expect(states == {"ended"}, f"{what}: the viewers' last snapshots are {states}")
        expect(watched.delay_s < CURRENT_WITHIN_S, f"{what}: a snapshot came {watched.delay_s:.1f} s late")
        grown = most["memory"] - before_mb
        expect(grown < MAX_GROWTH_MB, f"{what}: the engine grew by {grown} MB from {before_mb} MB")
        return Counter(
            {
                "snapshots seen": watched.snapshots,
                "connections of viewers that read": watched.visits,
                "most delay of a snapshot (ms)": int(watched.delay_s * 1_000),
                "most growth of an engine (MB)": grown,
                "most further threads of an engine": most["threads"] - before_threads,
            }
        )

    def _stop(self, engine: Command, run: Path, name: str, ending: str, what: str) -> None:
        """End a run before it ends by itself, by a signal or by a command beside all that its viewers do."""
        if ending == "TERM":
            engine.process.send_signal(signal.SIGTERM)
            return
        stop = Command(emptied(run / "stop"), ["stop", name], home(run))
        expect(stop.wait(ENDS_WITHIN_S), f"{what}: 'wmtop stop' hangs")
        expect(stop.code == 0, f"{what}: exit code {stop.code} of 'wmtop stop': {stop.said()}")

    def _check(self, engine: Command, run: Path, ending: str, seen: Counter[str], what: str) -> None:
        """The engine ended as it should, and with the results of an undisturbed run, now or once it has gone on."""
        assert self._runs is not None
        codes = {"end": {0}, "TERM": {0, 128 + signal.SIGTERM}, "stop": {0}}[ending]
        expect(engine.code in codes, f"{what}: exit code {engine.code}\n{engine.said()[-1_500:]}")
        expect("Traceback" not in engine.said(), f"{what}: {engine.said()[-1_500:]}")
        logged = sum(file.stat().st_size for file in (run / "run").glob("*.log"))
        expect(logged < MAX_LOG, f"{what}: a log of {logged:,} bytes")
        if ending == "end":
            self._runs.expect_same(outcome(engine.out.read_text(), run), run, what)
        else:
            self._runs.expect_as_undisturbed(run, what)

    def serve(self, chance: random.Random, counts: Counter[str]) -> None:
        """Tabs that draw and answer keys, beside one that never reads and one that floods; TERM ends them all."""
        directory = emptied(self._round)
        port = free_port()
        flood = chance.choice(sorted(TAB_FLOODS))
        what = f"serve, a tab that sends {flood}"
        server = Command(directory, ["serve", SOURCE, "--port", port], home(directory))
        try:
            most = asyncio.run(self._tabs(server, f"http://127.0.0.1:{port}", chance, TAB_FLOODS[flood], what, counts))
        finally:
            server.end()
        expect("Traceback" not in server.said(), f"{what}: {server.said()[-1_500:]}")
        expect(most < MAX_SERVER_MB, f"{what}: the server needs {most} MB")
        counts["most memory of a server (MB)"] = max(counts["most memory of a server (MB)"], most)
        counts[f"serve: {flood}"] += 1

    async def _tabs(
        self,
        server: Command,
        address: str,
        chance: random.Random,
        flood: Callable[[random.Random], str],
        what: str,
        counts: Counter[str],
    ) -> int:
        """Open the tabs, and end the server before them; its memory at its most (MB)."""
        async with aiohttp.ClientSession() as session:
            until = time.monotonic() + STARTS_WITHIN_S
            while True:
                expect(server.code is None and time.monotonic() < until, f"{what}: no server\n{server.said()[-1_500:]}")
                with suppress(aiohttp.ClientConnectionError):
                    never_reads = await session.ws_connect(address + TAB)
                    break
                await asyncio.sleep(0.05)
            await never_reads.send_json(["resize", {"width": 600, "height": 200}])
            flooding = asyncio.create_task(self._flood(session, address, chance, flood, counts))
            for _ in range(chance.randint(1, 2)):  # it comes and goes
                await (await session.ws_connect(address + TAB)).close()
            await asyncio.gather(*(use_tab(session, address, what) for _ in range(TABS)))
            counts["tabs that drew and answered"] += TABS
            expect(not flooding.done(), f"{what}: {flooding}")
            expect(counts[f"messages to tabs: {flood.__name__}"], f"{what}: none was sent")
            most, screens = status_of(server, "VmHWM") // 1_024, all_below(server.process.pid)
            server.process.send_signal(signal.SIGTERM)
            until = time.monotonic() + ENDS_WITHIN_S
            while server.code is None or any(state_of(pid) not in ("", "Z") for pid in screens):
                expect(time.monotonic() < until, f"{what}: exit code {server.code}; a server or screen is left")
                await asyncio.sleep(0.05)
            flooding.cancel()
            return most

    async def _flood(
        self, session: aiohttp.ClientSession, address: str, chance: random.Random,
        flood: Callable[[random.Random], str], counts: Counter[str],
    ) -> None:  # fmt: skip
        """Send to a tab as fast as it goes; open another one when it is closed."""
        sent = f"messages to tabs: {flood.__name__}"
        while True:
            try:
                async with session.ws_connect(address + TAB) as tab:
                    while not tab.closed:
                        await tab.send_str(flood(chance))
                        counts[sent] += 1
                        if counts[sent] % 100 == 0:  # the tabs that read are in this process too
                            await asyncio.sleep(0.05)
            except (aiohttp.ClientError, ConnectionError):  # also refused while TERM ends the server
                counts["tabs closed on a flood"] += 1
            await asyncio.sleep(0.05)


async def use_tab(session: aiohttp.ClientSession, address: str, what: str) -> None:
    """A tab that reads: the screen, and the help once its key is pressed."""
    async with session.ws_connect(address + TAB) as tab:
        await expect_drawn(tab, b"WATERMARK", what)
        await tab.send_json(["stdin", "?"])
        await expect_drawn(tab, b"Esc closes", what)


async def expect_drawn(tab: aiohttp.ClientWebSocketResponse, text: bytes, what: str) -> None:
    """Read what a tab draws until it has a text."""
    drawn = b""
    try:
        async with asyncio.timeout(DRAWN_WITHIN_S):
            while text not in drawn:
                message = await tab.receive()
                data = message.data
                expect(isinstance(data, bytes | str), f"{what}: a tab got {message.type.name} after {drawn[-300:]!r}")
                drawn += data if isinstance(data, bytes) else str(data).encode()
    except TimeoutError:
        expect(False, f"{what}: a tab does not show {text!r}: {drawn[-1_500:]!r}")


def keys(chance: random.Random) -> str:
    return json.dumps(["stdin", "".join(chance.choices("wltogdh?jks", k=200))])


def sizes(chance: random.Random) -> str:
    return json.dumps(["resize", {"width": chance.randint(1, 10_000), "height": chance.randint(1, 10_000)}])


def wrong_messages(chance: random.Random) -> str:
    return chance.choice(["x", "{}", '["stdin", 5]', "[" * 5_000, json.dumps(["stdin", "x" * 60_000])])


TAB_FLOODS: dict[str, Callable[[random.Random], str]] = {
    "keys": keys, "sizes": sizes, "messages of a wrong shape": wrong_messages
}  # fmt: skip


def status_of(command: Command, name: str) -> int:
    """A number of `/proc/PID/status`; 0 if it has just ended."""
    with suppress(OSError):
        found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{command.process.pid}/status").read_text())
        return int(found[1]) if found else 0
    return 0


def memory_of(command: Command) -> int:
    """Resident memory (MB)."""
    return status_of(command, "VmRSS") // 1_024


def threads_of(command: Command) -> int:
    return status_of(command, "Threads")
