"""A run on a topic in this process, driven as the engine drives it."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pyspark.sql import SparkSession
from wmtop.engine.kafka import probe
from wmtop.engine.kafka.client_settings import KafkaConfig
from wmtop.engine.kafka.local_broker import LocalBroker
from wmtop.engine.run.durable_state import StateDirectory
from wmtop.engine.run.query import Run
from wmtop.engine.run.sources.kafka import Kafka, Reader
from wmtop.engine.run.sources.kafka_columns import KafkaColumns
from wmtop.engine.snapshot import Note, Snapshot
from wmtop.engine.system.json_values import JsonPath
from wmtop.engine.verdict.monitor_snapshot import snapshot_of
from wmtop.engine.watermarks.settings import Settings, Tumbling

TS = JsonPath(("ts",))
IN_VALUE = KafkaColumns(time=TS)
SETTINGS = Settings(lateness_ms=1_000, idle_after_ms=None, window=Tumbling(10_000), emit_every_ms=50)
WITHIN_S = 60.0
LOOK_S = 0.2
"""How often at least the picture is looked at; after each batch, too."""


class Running:
    """A source and its run; what it knows is read through `picture`.

    `on_batch` is called after each batch, within it.
    """

    def __init__(self, source: Kafka) -> None:
        self.source = source
        self.run: Run
        self.on_batch: Callable[[], object] = lambda: None
        self._batch = threading.Event()

    def note_batch(self) -> None:
        """A batch has been applied."""
        self.on_batch()
        self._batch.set()

    def picture(self) -> Snapshot:
        with self.run.looking() as monitor:
            return snapshot_of(
                monitor,
                name="test",
                state="live",
                wall_ms=0,
                now_ms=self.run.now_ms(),
                source=self.source.describe(),
                unread=self.source.progress.unread(),
                notes=self.source.notes.notes(),
            )

    def until(self, wanted: Callable[[Snapshot], Any]) -> Snapshot:
        """Drive the run until the picture is as wanted."""
        deadline = time.monotonic() + WITHIN_S
        while not wanted(picture := self.picture()):
            assert time.monotonic() < deadline, picture
            self.run.check()
            if self.run.exhausted and not self.run.monitor.ended:
                self.run.end()
            self.run.tick()
            self._batch.wait(LOOK_S)
            self._batch.clear()
        return picture

    def read(self, records: int) -> Snapshot:
        """Drive it until so many rows were read, and nothing is known to be unread."""

        def all_read(picture: Snapshot) -> bool:
            totals = picture.totals
            unread = self.source.progress.unread()
            return totals.records + totals.malformed >= records and (unread is None or unread.records == 0)

        return self.until(all_read)


@contextmanager
def running(
    spark: SparkSession,
    broker: LocalBroker,
    topics: str | list[str],
    directory: Path,
    columns: KafkaColumns = IN_VALUE,
    settings: Settings = SETTINGS,
    say: Callable[[Note], None] | None = None,
    reader: Reader = "python",
    probe_every_s: float = 0.2,
    **options: Any,
) -> Iterator[Running]:
    """Start a run on topics; stopped at the end, its state stays in `directory`.

    The probe polls more often than in a user's run: its next poll is what many tests wait for.
    """
    topics = [topics] if isinstance(topics, str) else topics
    source = Kafka(
        KafkaConfig(broker.bootstrap), topics, columns, reader=reader, directory=directory, keep=True, **options
    )
    if say is not None:
        source.notes.subscribe(say)
    source.check()
    state = StateDirectory(directory)
    state.lock()
    it = Running(source)
    it.run = run = Run(source, settings, state, None, it.note_batch)
    often = dict.fromkeys(("EVERY_S", "TOPICS_EVERY_S", "AHEAD_EVERY_S"), probe_every_s)
    with patch.multiple(probe, **often):
        source.prepare(lambda text: None)
        try:
            run.load(spark)
            run.start()
            yield it
        finally:
            run.stop()
            source.close()
            state.unlock()
