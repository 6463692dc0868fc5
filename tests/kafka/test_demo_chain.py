"""The pipeline of `wmtop demo --chain`: each planted loss is named with its channel and cause, and every loss is the
one that the records have, by a plain consumer and Spark's own offset files.
"""

import json
import os
import threading
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kafka import KafkaConsumer
from kafka.structs import TopicPartition
from wmtop import sample_data
from wmtop.engine.feed import run_directory
from wmtop.engine.run.demo_pipeline import Pipeline
from wmtop.engine.targets.fleet import Watcher
from wmtop.engine.verdict.chain import Chain, Hop
from wmtop.tui.cli.chain import members_of
from wmtop.tui.cli.fleet import chain_now, watching
from wmtop.tui.cli.options import parse_time

pytestmark = pytest.mark.matrix

START = "2013-07-10T10:00:00Z"
"""In the morning: at night airports have no flights for hours, which is a cause of its own."""
SPEED = 360
DELAY_MS, FLINK_DELAY_MS = 1_200_000, 1_800_000
PARTITIONS = {"flights": 3, "delays": 2, "reports": 1}
TIMES = {"flights": "scheduled", "delays": "time", "reports": "time"}
SAMPLE_MS = 4_000
"""How old (wall clock) what the product shows may be: a refresh of it, one of Flink's metrics, and a busy machine."""
STOP_MS = 10_000
"""How long (wall clock) Spark's query may go on after it was told to restart."""
SHORT_BATCH_MS = 10_000
"""Batches of which the slow trigger (30 s) is certainly the cause: at most a third of it."""
SEEN_MS = 15_000
"""How long (wall clock) after it was held a source is certainly seen to read nothing: for 5 s, by Flink's metrics."""
NEVER = 2**62
Bounds = tuple[int, int]


class Batch(NamedTuple):
    """A batch of Spark's query, by its files (wall clock); `read` are the end offsets of the flights' partitions."""

    began_ms: int
    ended_ms: int | None
    read: list[int]


class Truth(threading.Thread):
    """What the records say: when each one came (wall clock), and what Spark's batches have read of them."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(daemon=True)
        self._consumer: Any = KafkaConsumer(bootstrap_servers=pipeline.bootstrap, auto_offset_reset="earliest")
        self._consumer.assign([TopicPartition(name, p) for name, count in PARTITIONS.items() for p in range(count)])
        self._offsets, self._commits = pipeline.checkpoint / "offsets", pipeline.checkpoint / "commits"
        self._came: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._times: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._maxima: dict[tuple[str, int], list[int]] = defaultdict(list)
        self._batches: dict[int, Batch] = {}
        self._read_until_ms = 0
        self.delays = [(0, DELAY_MS)]
        """Spark's delay, and from when on (wall clock)."""
        self.restarts: list[int] = []
        """When Spark's query was told to restart."""
        self.planted_ms = 0
        """When something was held last, or let go."""
        self.batches_needed = 1
        """How many of Spark's batches have to begin and end after that until there is something to conclude from."""
        self.held: dict[str, list[list[int]]] = defaultdict(list)
        """When a hop was held, and until when."""
        self.stopping = threading.Event()

    def run(self) -> None:
        while not self.stopping.is_set():
            began_ms = time.time_ns() // 1_000_000
            for place, records in self._consumer.poll(timeout_ms=100).items():
                key, now_ms = (place.topic, place.partition), time.time_ns() // 1_000_000
                for record in records:
                    event_ms = time_of(json.loads(record.value)[TIMES[place.topic]])
                    self._times[key].append(event_ms)
                    self._maxima[key].append(max([event_ms, *self._maxima[key][-1:]]))
                    self._came[key].append(now_ms)
            self._read_batches()
            self._read_until_ms = began_ms
        self._consumer.close()

    def wait_for(self, at_ms: int) -> None:
        """Wait until everything that came until that moment has been read."""
        while self._read_until_ms < at_ms:
            assert self.is_alive()
            time.sleep(0.02)

    def _read_batches(self) -> None:
        for path in self._offsets.glob("[0-9]*"):
            number = int(path.name)
            known = self._batches.get(number)
            if known is None or known.ended_ms is None:
                with suppress(FileNotFoundError, json.JSONDecodeError):
                    began_ms = path.stat().st_mtime_ns // 1_000_000 if known is None else known.began_ms
                    commit = self._commits / path.name
                    ended_ms = commit.stat().st_mtime_ns // 1_000_000 if commit.exists() else None
                    self._batches[number] = Batch(began_ms, ended_ms, ends(path) if known is None else known.read)

    def bounds(self, name: str, at_ms: int) -> Bounds | None:
        """Between which times the hop was in the sample that ends at that moment; None: it has none yet."""
        first_ms, last_ms = at_ms - SAMPLE_MS, at_ms + 500
        if name == "carrier-delays":
            low, high = self._least_of_spark(first_ms), self._most_of_spark(last_ms)
        else:
            for since_ms, until_ms in self.held[name]:
                first_ms = since_ms if since_ms < first_ms < until_ms else first_ms
                last_ms = since_ms + 1_000 if since_ms + 1_000 < last_ms < until_ms else last_ms
            low, high = self._of_records(name, first_ms), self._of_records(name, last_ms)
        return None if low is None or high is None else (low, high)

    def _of_records(self, name: str, at_ms: int) -> int | None:
        if name in PARTITIONS:
            return max(self._newest(name, at_ms), default=None)
        return self._behind(*(("reports", at_ms, 1) if name == "board" else ("delays", at_ms, FLINK_DELAY_MS + 1)))

    def _newest(self, topic: str, at_ms: int) -> list[int]:
        counts = {p: bisect_right(self._came[topic, p], at_ms) for p in range(PARTITIONS[topic])}
        return [self._maxima[topic, p][count - 1] for p, count in counts.items() if count]

    def _behind(self, topic: str, at_ms: int, by_ms: int) -> int | None:
        found = self._newest(topic, at_ms)
        return min(found) - by_ms if len(found) == PARTITIONS[topic] else None

    def _most_of_spark(self, at_ms: int) -> int | None:
        """The watermark in force in the last batch, at most: by all that the batches before it had read."""
        return max(
            (
                min(self._maxima["flights", p][count - 1] for p, count in enumerate(batch.read))
                - min(self._delays_of(batch))
                for batch in self._before_last(at_ms)
                if all(batch.read)
            ),
            default=None,
        )

    def _least_of_spark(self, at_ms: int) -> int | None:
        """The same, at least: a query that restarts counts only what it has read since, and never goes back."""
        reached: list[int] = []
        newest: dict[int, int] = {}
        read, run = [0, 0, 0], 0
        for batch in self._before_last(at_ms):
            ended_ms = batch.ended_ms or NEVER
            runs = sum(since_ms < ended_ms for since_ms in self.restarts)
            newest, run = newest if runs == run else {}, runs
            for p, (start, end) in enumerate(zip(read, batch.read, strict=True)):
                if end > start:
                    newest[p] = max([*self._times["flights", p][start:end], newest.get(p, 0)])
            read = batch.read
            if len(newest) == len(read):
                reached.append(min(newest.values()) - max(self._delays_of(batch)))
            if any(since_ms < ended_ms < since_ms + STOP_MS for since_ms in self.restarts):
                newest = {}  # perhaps it was the last batch of the run before
        return max(reached, default=None)

    def _before_last(self, at_ms: int) -> list[Batch]:
        begun = sorted(number for number, batch in list(self._batches.items()) if batch.began_ms <= at_ms)
        return [self._batches[number] for number in begun[:-1]]

    def _delays_of(self, batch: Batch) -> set[int]:
        """Its delay; two while the query restarts with another one: a batch that is interrupted runs again."""
        ended_ms = batch.ended_ms or NEVER
        return {self._delay_at(at_ms) for at_ms in (batch.began_ms, ended_ms - STOP_MS, ended_ms)}

    def _delay_at(self, at_ms: int) -> int:
        return next(delay for since_ms, delay in reversed(self.delays) if since_ms <= at_ms)

    @property
    def has_reported(self) -> bool:
        """Whether enough of Spark's batches have begun and ended since something was planted, and the last one was
        short: on a busy machine that takes a while.
        """
        batches = sorted(self._batches.items())
        ended = [batch for _, batch in batches if batch.began_ms > self.planted_ms and batch.ended_ms is not None]
        return (
            len(ended) >= self.batches_needed and (ended[-1].ended_ms or NEVER) - ended[-1].began_ms <= SHORT_BATCH_MS
        )


def time_of(value: int | str) -> int:
    return value if isinstance(value, int) else parse_time(value)


def ends(path: Path) -> list[int]:
    """The end offsets of the partitions of the flights in a batch, by Spark's file."""
    sources = [json.loads(line) for line in path.read_text().splitlines()[2:]]
    by_partition = {int(p): offset for source in sources for p, offset in source["flights"].items()}
    return [by_partition[p] for p in range(3)]


class Scene:
    """The running pipeline, seen by the product and by the plain consumer."""

    def __init__(self, pipeline: Pipeline, watcher: Watcher, truth: Truth) -> None:
        self.pipeline, self.truth = pipeline, truth
        self._watcher = watcher
        self._members = {member.name: member for member in members_of(pipeline)}
        self._looked_ms = 0

    def look(self) -> tuple[Chain, dict[str, Bounds]]:
        """The next look at the chain, and the bounds of each hop's loss by the records; every loss is compared with
        them.
        """
        while (seen := chain_now(self._watcher, self._members))[1] <= self._looked_ms:
            time.sleep(0.05)
        chain, at_ms = seen
        self._looked_ms = at_ms
        self.truth.wait_for(at_ms + 500)
        names = [chain.hops[number].name for number in chain.way]
        known = {name: found for name in names if (found := self.truth.bounds(name, at_ms)) is not None}
        losses: dict[str, Bounds] = {}
        for number, before in zip(chain.way[1:], chain.way, strict=False):
            hop, source = chain.hops[number], chain.hops[before].name
            if hop.name in known and source in known:
                (low, high), (source_low, source_high) = known[hop.name], known[source]
                losses[hop.name] = low_loss, high_loss = source_low - high, source_high - low
                if hop.loss_ms is not None:
                    assert low_loss <= hop.loss_ms <= high_loss, (hop, known[hop.name], known[source])
        return chain, losses

    def until(self, hop: str) -> list[Hop]:
        """Look until the records say, in three looks in a row, that this hop loses most, and more than twice its
        lateness. Returns the worst hop by the product in the last two.
        """
        agreed = 0
        worst: list[Hop] = []
        for _ in range(300):
            chain, losses = self.look()
            if len(losses) < 5 or chain.worst is None or not self.truth.has_reported:
                continue
            edges = {each.name: each.edge for each in chain.hops}
            assert edges == {**dict.fromkeys(edges, "reported"), "flights": None, "reports": "configured"}
            least = max(2 * FLINK_DELAY_MS, *(high for name, (_, high) in losses.items() if name != hop))
            is_seen = self._looked_ms > self.truth.planted_ms + SEEN_MS
            agreed = agreed + 1 if losses[hop][0] > least and is_seen else 0
            worst = [*worst[-1:], chain.hops[chain.worst]]
            if agreed == 3:
                return worst
        pytest.fail(f"the records never said that {hop} loses most")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    start_ms = parse_time(START)
    pipeline = Pipeline(sample_data.flights(), speed=SPEED, start_ms=start_ms, lateness_ms=DELAY_MS)
    patch = pytest.MonkeyPatch()
    patch.setenv(run_directory.RUN_DIR_VARIABLE, f"/tmp/wmtop-test-{os.getpid()}")  # sockets need short paths
    config = tmp_path_factory.mktemp("chain") / "config.toml"
    config.write_text('[ui]\nrefresh = "500ms"')
    patch.setenv("WMTOP_CONFIG", str(config))
    try:
        pipeline.start()
        while not pipeline.has_started:
            assert pipeline.failed is None
            time.sleep(0.1)
        truth = Truth(pipeline)
        truth.start()
        with watching(lambda: members_of(pipeline)) as watcher:
            scene = Scene(pipeline, watcher, truth)
            while len(scene.look()[1]) < 5:  # a hop that is held before it has written anything has no loss to compare
                assert pipeline.failed is None
            yield scene
        truth.stopping.set()
        truth.join()
    finally:
        pipeline.close()
        patch.undo()


@pytest.mark.parametrize(
    ("hold", "hop", "channels", "causes"),
    [
        ("flights", "carrier-delays", {"flights-1"}, {"quiet"}),
        ("hourly-report", "hourly-report", {"delays-0", "delays-1"}, {"paused"}),
        ("board", "board", {"0", "reports-0"}, {"no_member"}),
        ("carrier-delays", "carrier-delays", {None}, {"trigger"}),
        ("lateness", "carrier-delays", {None}, {"lateness_raised", "lateness"}),
    ],
)
def test_a_planted_loss_is_the_worst_hop_with_its_channel_and_cause(
    scene: Scene, hold: str, hop: str, channels: set[str | None], causes: set[str]
) -> None:
    plant(scene, hold)
    try:
        found = scene.until(hop)
    finally:
        plant(scene, hold)
    assert {each.name for each in found} == {hop}, found
    # One look may be between Spark's report and the next sample.
    assert any(each.channel in channels and each.cause in causes for each in found), [
        (each.channel, each.cause) for each in found
    ]


def plant(scene: Scene, hold: str) -> None:
    """Hold, or let go, and note when."""
    truth, now_ms = scene.truth, time.time_ns() // 1_000_000
    truth.planted_ms = now_ms
    truth.batches_needed = 2 if hold == "flights" else 1  # the first one may read what came before
    is_held = scene.pipeline.toggle(hold).startswith("held")
    if hold in ("hourly-report", "board"):
        if is_held:
            truth.held[hold].append([now_ms, NEVER])
        else:
            truth.held[hold][-1][1] = now_ms
    if hold in ("carrier-delays", "lateness"):
        truth.restarts.append(now_ms)
    if hold == "lateness":
        truth.delays.append((now_ms, DELAY_MS * (10 if is_held else 1)))
