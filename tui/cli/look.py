"""Looks at a target once, or at a moment of a recording."""

import sys
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from msgspec import Struct

from ...engine.doctor import diagnose, verdict_at
from ...engine.feed.messages import Header
from ...engine.feed.recording_reader import RecordingReader
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, UsageError, first_line
from ...engine.targets.own import Recording, is_recording
from ...engine.targets.target import Pace, TargetOptions
from ...engine.text.formatting import clean, stamp
from ..words.check import CheckInput
from ..words.recent import Recent
from .members import Member


@contextmanager
def recording_at(path: Path, at_ms: int | None) -> Generator[tuple[RecordingReader, int]]:
    """The recording and the number of its snapshot at a time (None: its last one); UsageError if there is none."""
    with RecordingReader(path) as reader:
        if not len(reader):
            raise UsageError(f"{path} has no snapshots")
        yield reader, len(reader) - 1 if at_ms is None else number_at(reader, path, at_ms)


def number_at(reader: RecordingReader, path: Path, at_ms: int) -> int:
    """The number of the snapshot at that moment; UsageError where the recording starts later.

    A line on standard error says so where it ends earlier: its last snapshot may be out of date by then.
    """
    first = next((point for point in reader.points if point is not None), None)
    if first is None or at_ms < first.now_ms:
        start = (
            "its snapshots have no times" if first is None else f"the recording starts at {stamp(first.now_ms, None)}"
        )
        raise UsageError(f"--at {stamp(at_ms, None)}: {path} has no snapshot that early; {start}")
    number = reader.seek(at_ms)
    last = max(point.now_ms for point in reader.points if point is not None)
    if at_ms > last and not reader.at(number).ended:
        end = f"the recording ends at {stamp(last, None)}; this is its last snapshot"
        print(f"wmtop: --at {stamp(at_ms, None)}: {end}", file=sys.stderr)
    return number


class Look(Struct):
    """What was read of a target so far."""

    recent: Recent
    snapshot: Snapshot | None = None
    lost: str | None = None

    def given(self) -> CheckInput:
        """For facts and findings."""
        assert self.snapshot is not None
        past = self.recent.until(self.snapshot)
        findings = diagnose(self.snapshot, past, lost=self.lost)
        return CheckInput(self.snapshot, past, verdict_at(self.snapshot, past, lost=self.lost), findings)


def look_at(
    member: Member, is_decided: Callable[[Look], bool], for_ms: int, at: int | None, options: TargetOptions
) -> Look:
    """Read the target until more time would not change the answer, or `for_ms` are over; at least one snapshot.

    `at` (epoch ms) is the moment of a recording; `options` win over the member's own.
    """
    if at is not None and not is_recording(member.target):
        raise UsageError(f"--at is for a recording, and {clean(member.target)} is not one")
    from ...engine.targets.open import open_target

    opened = open_target(member.target, options, member.options)
    if isinstance(opened, Recording):
        return _recorded(opened.path, at)
    look, pace = Look(Recent()), Pace(for_s=for_ms / 1_000)
    try:
        with closing(opened.follow("check", pace)) as messages:
            for message in messages:
                if isinstance(message, Header):
                    look.recent = Recent(message.history)
                    continue
                look.snapshot = message
                look.recent.add(message)
                if is_decided(look):
                    return look
        if not pace.is_over:
            look.lost = "the engine stopped while it was checked"
    except RunError as error:
        look.lost = first_line(error)
    if look.snapshot is None:
        raise RunError(look.lost or f"the engine {opened.name} sent no snapshot within {for_ms / 1_000:g} s")
    return look


def _recorded(path: Path, at: int | None) -> Look:
    with recording_at(path, at) as (reader, number):
        points = [point for point in reader.points[: number + 1] if point is not None]
        return Look(Recent(points), reader.at(number))
