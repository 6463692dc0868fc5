"""A host without an engine behind it, for tests of what its viewers see."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from wmtop.engine.feed import host as hosts
from wmtop.engine.feed import run_directory
from wmtop.engine.feed.host import Host, Subject
from wmtop.engine.feed.messages import Reply
from wmtop.engine.snapshot import Note, OwnRun, Snapshot, SourceView, TargetPart
from wmtop.engine.watermarks.settings import Settings


@contextmanager
def host_alone(
    monkeypatch: pytest.MonkeyPatch,
    on_snapshot: Callable[[Snapshot, bool], None] = lambda *_: None,
    empty: TargetPart | None = None,
) -> Iterator[Host]:
    """The host of a run `flights` in the run directory; it grants every change and leaves signals alone."""
    monkeypatch.setattr(hosts.signal, "signal", lambda *_: None)
    with run_directory.claim("flights", "", 0) as claim:
        made = Host(
            claim,
            Subject(Settings(), empty or OwnRun(), lambda: SourceView(kind="rate", description=""), list[Note]),
            on_change=lambda change: Reply(id=change.id, ok=True),
            on_snapshot=on_snapshot,
            say=lambda _: None,
        )
        yield made
        made.close()
