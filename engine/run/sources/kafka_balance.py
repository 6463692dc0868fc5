"""How evenly the partitions are read (`--max-drift`): those far ahead of the slowest one are paused."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from ...kafka.client_settings import KafkaConfig
from ...kafka.cluster import Cluster, Peek, Positions, time_in
from ...system.files import replace_file
from ...watermarks.times import MIN
from .kafka_columns import KafkaColumns
from .kafka_progress import KafkaProgress
from .shared_files import SharedFiles


class KafkaBalancer:
    """A source's `Balancer`: names the paused partitions in a file that Spark's planner, another process, reads.

    `max_drift_ms` is how far (event time) a partition may be ahead of the slowest.
    """

    def __init__(
        self,
        config: KafkaConfig,
        progress: KafkaProgress,
        columns: KafkaColumns,
        *,
        max_drift_ms: int,
        shared: SharedFiles,
    ) -> None:
        self._columns = columns
        self._progress = progress
        self._peek = Peek(config)
        self.max_drift_ms = max_drift_ms
        self._shared = shared
        self.enforced = False
        """Whether the reader obeys `file`: kafka-python's does, Spark's connector does not."""
        self._reached: dict[str, int] = {}
        """The greatest event time (ms) read from each channel that is not idle."""
        self._newest: dict[str, int] = {}
        """The greatest event time (ms) in partitions with unread records."""

    @property
    def file(self) -> Path:
        """The file that names the paused partitions."""
        return self._shared.path / "held-back.json"

    def begin(self) -> None:
        """Forget what an earlier run paused."""
        self.file.unlink(missing_ok=True)

    def balance(self, max_event_ms: Mapping[str, int | None]) -> None:
        """Pause the partitions that are further ahead of the slowest than allowed."""
        self._reached = {channel: time_ms for channel, time_ms in max_event_ms.items() if time_ms is not None}
        unread = self._progress.unread()
        if not self.enforced or unread.by_channel is None:
            return
        # Left out: partitions known to be empty, idle ones, and those without a usable time so far.
        read_to = self._progress.read_to
        start = self._progress.starts
        untouched = {self._progress.channel_of(p) for p, at in read_to.items() if at <= start.get(p, 0)}
        taking_part = [
            time_ms
            for channel, time_ms in max_event_ms.items()
            if time_ms is not None or (unread.of(channel) != 0 and channel in untouched)
        ]
        known = [time_ms for time_ms in taking_part if time_ms is not None]
        # Some partition has unread records and none read yet: all others wait for its first record.
        limit = min(known) + self.max_drift_ms if known and len(known) == len(taking_part) else MIN
        held = frozenset(c for c, time_ms in max_event_ms.items() if time_ms is not None and time_ms > limit)
        if held != self._progress.held_back:
            self._progress.held_back = held
            names = [f"{p.topic}-{p.partition}" for p in read_to if self._progress.channel_of(p) in held]
            replace_file(self.file, msgspec.json.encode(names))

    def drift_ms(self) -> int | None:
        """The distance (event time, ms) between the partitions now; None: nothing is read yet."""
        return _spread(self._reached.values())

    def unbalanced_drift_ms(self) -> int | None:
        """The distance they could have if nothing paused."""
        return _spread([*self._reached.values(), *self._newest.values()])

    def look_ahead(self, cluster: Cluster, ends: Positions) -> None:
        """Find the greatest event time in each partition with unread records."""
        unread = {p: end for p, end in ends.items() if end > self._progress.read_to.get(p, 0)}
        newest = self._newest_of(cluster, unread)
        self._newest = {self._progress.channel_of(partition): time_ms for partition, time_ms in newest.items()}

    def close(self) -> None:
        """Disconnect."""
        self._peek.close()

    def _newest_of(self, cluster: Cluster, unread: Positions) -> Positions:
        path = self._columns.time
        if path is None:
            return {partition: stamp for partition, (stamp, _) in cluster.greatest_timestamps(unread).items()}
        last = self._peek.before(unread, self._progress.earliest)
        times = {partition: time_in(record, path, self._columns.unit) for partition, record in last.items()}
        return {partition: time_ms for partition, time_ms in times.items() if time_ms is not None}


def _spread(times_ms: Iterable[int]) -> int | None:
    known = list(times_ms)
    return max(known) - min(known) if known else None
