"""A proposed idle timeout, once offered for a stall, stays while it gives what it promised."""

from collections.abc import Sequence
from itertools import pairwise

import pytest
from wmtop.engine.doctor import Finding, Fix, Offered, diagnose, offered_by
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.verdict.preview import ProposedSetting, now_gain_ms
from wmtop.tui.words.main_screen import Shown
from wmtop.tui.words.recent import Recent

from tests.snapshots import replace

from .streams import HOUR, MINUTE, SECOND, SETTINGS, Stream, traffic

pytestmark = pytest.mark.hours

SETTINGS_WITHOUT_TIMEOUT = replace(SETTINGS, idle_after_ms=None)


def stalled() -> Stream:
    """Channel d, and from the tenth minute on also c, has no data for an hour."""
    stream = Stream(SETTINGS_WITHOUT_TIMEOUT).run(30, traffic("abcd"), by=10 * SECOND)
    stream.run(60, traffic("abc"), by=10 * SECOND)
    return stream.run(300, traffic("ab"), by=10 * SECOND)


def proposed(findings: Sequence[Finding]) -> Fix | None:
    return next((fix for one in findings for fix in one.fixes if fix.code == "set-idle-timeout"), None)


def gain(snapshot: Snapshot, value_ms: int | None) -> int:
    return now_gain_ms(snapshot, ProposedSetting(True, value_ms)) or 0


def test_it_stays_while_it_gives_nine_tenths_of_its_promise() -> None:
    stream = stalled()
    offered: Offered | None = None
    kept: list[tuple[Snapshot, Fix]] = []
    fresh: set[int | None] = set()
    for snapshot in stream.published:
        findings = diagnose(snapshot, stream.past, offered=offered)
        offered = offered_by(snapshot, findings, offered)
        if (fix := proposed(findings)) is not None:
            kept.append((snapshot, fix))
            single = proposed(diagnose(snapshot, stream.past))
            fresh.add(None if single is None else single.value_ms)
    assert len({snapshot.level.moved_ms for snapshot, _ in kept}) == 1
    assert len(fresh) > 2  # a single look gives ever longer timeouts
    promise = gain(*_first(kept))
    for (_, before), (snapshot, fix) in pairwise(kept):
        if fix.value_ms != before.value_ms:
            assert gain(snapshot, before.value_ms) < 0.9 * promise
            promise = gain(snapshot, fix.value_ms)
        assert fix.gain_ms
        assert fix.price
    assert len({fix.value_ms for _, fix in kept}) < len(fresh)


def _first(kept: list[tuple[Snapshot, Fix]]) -> tuple[Snapshot, int | None]:
    snapshot, fix = kept[0]
    return snapshot, fix.value_ms


def test_another_stall_gets_an_offer_of_its_own() -> None:
    snapshot = stalled().published[-1]
    moved_ms = snapshot.level.moved_ms or 0
    before = Offered(moved_ms, MINUTE, HOUR)
    assert offered_by(snapshot, [], before) == before
    moved = replace(snapshot, level=replace(snapshot.level, moved_ms=moved_ms + 1))
    assert offered_by(moved, [], before) is None
    assert not before.gives(moved, 2 * HOUR)
    assert before.gives(snapshot, round(0.9 * HOUR))
    assert not before.gives(snapshot, round(0.89 * HOUR))


def test_the_screen_keeps_it() -> None:
    stream = stalled()
    recent = Recent()
    shown = Shown(stream.published[0], recent, lambda: 0.0)
    values: list[int | None] = []
    for snapshot in stream.published:
        recent.add(snapshot)
        shown.take(snapshot, recent)
        shown.adopt()
        if shown.offer is not None and shown.offer.proposed.idle:
            values.append(shown.offer.proposed.value_ms)
    assert values
    changes = sum(before != after for before, after in pairwise(values))
    assert changes <= 1
