"""What the tasks of a restarted application read before their stream time advances, by the facts of polls."""

from dataclasses import dataclass, field

import pytest
from wmtop.engine.kafka.cluster import Positions, TopicPartition
from wmtop.engine.snapshot import Reprocessed
from wmtop.engine.targets.streams.clocks import CommittedTime, Topology
from wmtop.engine.targets.streams.group import GroupFacts, Members, Restarts
from wmtop.engine.targets.topic import PartitionFacts, TopicFacts

BASE, NOW = 1_700_000_000_000, 1_750_000_000_000
ORDERS, CLICKS = TopicPartition("orders", 0), TopicPartition("clicks", 0)
TOPOLOGY = Topology({"orders": "0", "clicks": "0"})


@dataclass
class Polls:
    """An application that a test moves on, and what is noted of it; an offset without an event time is a marker."""

    timed: bool = False
    closed: dict[str, int] = field(default_factory=dict[str, int])
    log: dict[TopicPartition, list[int | None]] = field(default_factory=dict[TopicPartition, list[int | None]])
    reached: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])
    purged: bool = False
    own_ms: int = 0
    """How far the records' own timestamps are ahead of the application's event times."""
    member: str | None = "a"
    topology: Topology = TOPOLOGY

    def __post_init__(self) -> None:
        self._restarts = Restarts(timed=self.timed)
        self._before = GroupFacts()
        self.now_ms = NOW

    def read(self, *seconds: int | None, at: TopicPartition = ORDERS) -> Reprocessed | None:
        """The application commits that it has processed records of these seconds; what is noted of its task."""
        times = [None if second is None else BASE + second * 1_000 for second in seconds]
        self.log.setdefault(at, []).extend(times)
        known = [ms for ms in (*times, self.reached.get(at)) if ms is not None]
        self.reached |= {at: max(known)} if known else {}
        return self.look()

    def look(self) -> Reprocessed | None:
        """What is noted at the next poll."""
        self.now_ms += 1_000
        partitions = tuple(
            PartitionFacts(p.topic, p.partition, len(log), None, None, len(log), self.reached[p] + self.own_ms,
                           first=len(log) if self.purged else 0)
            for p, log in self.log.items()
        )  # fmt: skip
        owners = {} if self.member is None else dict.fromkeys(self.log, self.member)
        now = GroupFacts(
            topics=TopicFacts(partitions=partitions),
            times={p: CommittedTime(ms, self.closed) for p, ms in self.reached.items()},
            members=Members(topology=self.topology, owners=owners, members=len(owners)),
        )
        found = self._restarts.note(self._before, now, self.now_ms, self._between)
        self._before = now
        assert len(set(map(str, found.values()))) <= 1
        return next(iter(found.values()), None)

    def _between(self, begins: Positions, ends: Positions) -> dict[TopicPartition, list[int | None]]:
        kept = {} if self.purged else self.log
        return {p: [ms for ms in kept.get(p, [])[begins[p] : end] if ms is not None] for p, end in ends.items()}


def restarted(polls: Polls, *, down: bool = False) -> None:
    """It has read up to second 30, and another member takes over."""
    polls.read(0, 10, 30)
    if down:
        polls.member = None
        polls.look()
    polls.member = "b"


@pytest.mark.parametrize("down", [False, True])
def test_older_records_after_a_restart_are_reprocessed_until_a_newer_one_comes(down: bool) -> None:
    polls = Polls()
    restarted(polls, down=down)
    assert polls.look() is None
    since_ms = polls.now_ms
    seen = polls.read(12, 4)
    assert seen == Reprocessed(since_ms, BASE + 30_000, 2, ["orders-0"], BASE + 4_000)
    seen = polls.read(7)
    assert seen is not None
    assert (seen.records, seen.earliest_ms, seen.is_over) == (3, BASE + 4_000, False)
    seen = polls.read(31)
    assert seen is not None
    assert (seen.records, seen.is_over) == (3, True)
    assert polls.read(5) == seen  # its operators have caught up


def test_records_that_the_new_owner_has_read_by_the_first_look_at_it_count() -> None:
    polls = Polls()
    restarted(polls)
    seen = polls.read(12)
    assert seen is not None
    assert seen.records == 1


def test_without_a_restart_older_records_are_ordinary() -> None:
    polls = Polls()
    polls.read(0, 10, 30)
    assert polls.read(12) is None
    assert polls.read(7, 29) is None


def test_a_restart_before_the_first_look_is_not_known() -> None:
    polls = Polls(member="b")
    polls.read(30)
    assert polls.read(12) is None


@pytest.mark.parametrize("seconds", [(31,), (12, 31), ()])
def test_newer_records_or_none_after_a_restart_reprocess_nothing(seconds: tuple[int, ...]) -> None:
    polls = Polls()
    restarted(polls)
    polls.look()
    assert polls.read(*seconds) is None


def test_markers_of_transactions_are_no_records() -> None:
    polls = Polls()
    restarted(polls)
    assert polls.read(None, None) is None
    seen = polls.read(12, None)
    assert seen is not None
    assert seen.records == 1


def test_with_on_window_close_the_commits_keep_what_was_emitted() -> None:
    polls = Polls(closed={"counts": BASE + 20_000})
    restarted(polls)
    polls.look()
    assert polls.read(12) is None


def test_a_newer_record_of_any_partition_of_the_task_ends_it() -> None:
    polls = Polls()
    polls.read(30)
    polls.read(5, at=CLICKS)
    polls.member = "b"
    assert polls.look() is None
    seen = polls.read(12, at=CLICKS)  # below the task's clock, which is that of orders
    assert seen is not None
    assert (seen.records, seen.channels, seen.earliest_ms) == (1, ["clicks-0"], BASE + 12_000)
    seen = polls.read(40, at=CLICKS)
    assert seen is not None
    assert seen.is_over


def test_records_that_are_gone_are_counted_by_their_offsets_without_times() -> None:
    polls = Polls()
    restarted(polls)
    polls.purged = True
    seen = polls.read(12, None)
    assert seen is not None
    assert (seen.records, seen.earliest_ms) == (2, None)
    polls.purged = False
    seen = polls.read(13)
    assert seen is not None
    assert (seen.records, seen.earliest_ms) == (3, None)


@pytest.mark.parametrize(
    ("timed", "repartitions", "earliest_ms"),
    [(False, (), None), (True, (), BASE + 12_000), (False, ("orders",), BASE + 12_000)],
)
def test_the_records_own_times_count_where_they_are_known_to_be_event_times(
    timed: bool, repartitions: tuple[str, ...], earliest_ms: int | None
) -> None:
    polls = Polls(timed=timed, own_ms=90_000, topology=Topology(TOPOLOGY.subtopologies, frozenset(repartitions)))
    restarted(polls)
    seen = polls.read(12)
    assert seen is not None
    assert (seen.records, seen.earliest_ms) == (1, earliest_ms)
