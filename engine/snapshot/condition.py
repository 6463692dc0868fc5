"""What a target reports of its own state beside `EngineState`: typed facts, which verdict, findings and checks read.

The notes of a snapshot are for people; what follows from them is here.
"""

from typing import Literal

from msgspec import Struct

Pause = Literal["unknown", "trigger", "first_batch"]
"""Why a query has had no batch for longer than usual: an idle source, its trigger or a query that hangs look alike; its
trigger; its first batch has not ended.
"""
Standstill = Literal["no_new_batch", "batch_unfinished", "silent", "gone"]
"""What shows that a query begins no batch: none was planned; the last one has not ended; it reports nothing; its
application has ended.
"""


class LostDirectory(Struct, frozen=True):
    """The directory of a source that cannot be read, since when (wall clock, epoch ms), and why."""

    directory: str
    why: str
    since_ms: int


class Uncommitted(Struct, frozen=True):
    """Partitions with records and without a commit of the group: how many, the first of them, and their records."""

    partitions: int
    first: int | str
    """Its number, or its name with several topics."""
    records: int


class Condition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is known of a target's state; the default of each field is that nothing of the kind is known."""

    settled: bool = False
    """Another look would show no more, also if the verdict is not known."""
    no_guide: bool = False
    """Its watermark says nothing about its results: windows do not wait for it, or it passed unended inputs."""
    clock_ahead: bool = False
    """Its clock is ahead of ours by an unknown time: its times prove no progress."""
    source_silent: str | None = None
    """Why its source does not answer, in one line."""
    directory_lost: LostDirectory | None = None
    unreadable: str | None = None
    """What of it cannot be read and why, in one line."""

    # An engine of wmtop
    jvm_silent_ms: int | None = None
    """For how long its JVM has not answered; None: it answers."""
    stopping: bool = False
    channels_left_out: int | None = None
    """How many channels are not in this snapshot, nor the windows: it would be too long. None: all are there."""
    one_batch: bool = False
    """The stream was a single batch, so no record could be late."""

    # An attached query
    alive: bool = False
    """It has had no batch for long, and is known to run: by its driver, or its job that publishes."""
    idle: bool = False
    """It has just reported that its sources have nothing to read."""
    continuous: bool = False
    """Its trigger is continuous: it reports neither batches nor a watermark."""
    pause: Pause | None = None
    standstill: Standstill | None = None
    due: bool = False
    """At a standstill, and not because it is idle: something is unread, or it would begin a batch without data."""
    silent_ms: int | None = None
    """For how long it has paused, or since when nothing is heard of its application; None: not known."""

    # A consumer group
    no_member: bool = False
    """Records are unread, and the group has no member to read them."""
    uncommitted: Uncommitted | None = None

    @property
    def is_inconclusive(self) -> bool:
        """Whether unread records say nothing: they may only wait for the query's next trigger."""
        return self.pause is not None or self.continuous


NOTHING_KNOWN = Condition()
