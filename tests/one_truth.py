"""Semantics 11.1, invariants (a) to (e): what every surface says of one moment, compared."""

import io
import re
from collections import Counter
from collections.abc import Iterable
from contextlib import redirect_stdout

from wmtop.engine.doctor import Finding, explain
from wmtop.engine.snapshot import Snapshot
from wmtop.engine.verdict.alerts import AlertRule, VerdictChanged
from wmtop.engine.verdict.history import history_point
from wmtop.tui.cli.check import Lines, result_of
from wmtop.tui.cli.targets import Look
from wmtop.tui.words.check import CheckInput, facts_of, lines
from wmtop.tui.words.fleet import fleet_row
from wmtop.tui.words.history import alert_text, event_words
from wmtop.tui.words.kinds import presenter_of
from wmtop.tui.words.metrics import ALL_METRICS
from wmtop.tui.words.recent import Recent
from wmtop.tui.words.spans import lay
from wmtop.tui.words.summary import Case, Clip, markdown
from wmtop.tui.words.verdict import age_words, verdict_parts

NOT_ADVANCING = re.compile(r"not advanc|frozen|stalled|is stuck|unchanged|does not move", re.IGNORECASE)
REPORT_EVERY = 20


def check_all(snapshots: Iterable[Snapshot]) -> Counter[str]:
    """Compare all surfaces at each snapshot of one stream; how often each verdict was seen."""
    look, rule, printed, seen = Look(Recent()), AlertRule(), Lines(0), Counter[str]()
    for number, snapshot in enumerate(snapshots):
        look.seen = [snapshot]
        look.recent.add(snapshot)
        given = look.given()
        assert given.verdict == snapshot.verdict.verdict, "no surface judges again"
        said = [*_alerts(rule, snapshot), _watched(printed, look), *lines(result_of("t", look, None, None))]
        if number % REPORT_EVERY == 0:
            said.append(_report(given))
        _compare(given, said)
        _exported(given)
        seen[given.verdict] += 1
    return seen


def _watched(printed: Lines, look: Look) -> str:
    with redirect_stdout(io.StringIO()) as out:
        printed.see(look)
    line = out.getvalue()
    assert look.snapshot.verdict.verdict.upper() in line
    return line.partition("over: ")[0]  # what is over is not so now


def _alerts(rule: AlertRule, snapshot: Snapshot) -> list[str]:
    """The texts of the events of this moment; who is blamed is the holder of this moment."""
    point, said, holder = history_point(snapshot), list[str](), snapshot.level.holder
    for event in rule.see(point) if point is not None else ():
        words = event_words(event)
        said += [words.what, words.detail.partition("was ")[0].partition("last alert")[0]]
        if isinstance(event, VerdictChanged):
            assert event.verdict == snapshot.verdict.verdict
            assert event.channel in (None, holder and holder.channel)
            said.append(alert_text(event, snapshot, []))
    return said


def _report(given: CheckInput) -> str:
    """The part of the incident report that is about this moment."""
    case = Case(
        snapshot=given.snapshot, past=given.past, events=[], clip=Clip(1, None, None), versions=[], written_ms=0
    )
    text = markdown(case)
    line = text.partition("## Verdict\n\n")[2].partition("\n")[0].replace("\\", "")  # without the marks of Markdown
    assert given.verdict.upper() in line
    if given.verdict in ("moving", "waiting") and _worst(given.findings) == "critical":
        assert given.findings[0].title in line
    return text.partition("## Timeline")[0]


def _exported(given: CheckInput) -> None:
    samples = {metric.name: dict(metric.take(given)) for metric in ALL_METRICS}
    verdict, holder = given.snapshot.verdict, given.snapshot.level.holder
    assert [labels for labels, value in samples["verdict"].items() if value] == [(given.verdict,)]
    if verdict.verdict == "stalled" and verdict.age_ms is not None:
        assert abs(samples["watermark_stalled_seconds"][()] - verdict.age_ms / 1_000) < 0.001
    elif verdict.verdict != "unknown":
        assert samples["watermark_stalled_seconds"][()] == 0
    assert [*samples["held_back"]] == ([] if holder is None else [(holder.channel, holder.cause)])


def _laid(parts: Iterable[object]) -> str:
    return "".join(text for text, _ in lay(list(parts), 10_000))  # pyright: ignore[reportArgumentType]


def _compare(given: CheckInput, said: list[str]) -> None:
    snapshot, findings = given.snapshot, given.findings
    verdict, level = snapshot.verdict, snapshot.level
    explained = [explain(one, snapshot, None) for one in findings]
    parts = verdict_parts(snapshot, findings)
    line, watermark = _laid(parts), _laid(presenter_of(snapshot).watermark(None))
    holder = _laid(presenter_of(snapshot).holder(None))
    row, facts = fleet_row("t", "", snapshot, given.past, None), facts_of(given)
    result = result_of("t", Look(Recent(given.past), seen=[snapshot]), None, None)
    said = [*said, line, watermark, row.reason, *(f"{one.title} {one.impact} {one.cause}" for one in explained)]
    # (a)
    if verdict.verdict in ("moving", "slow"):
        assert verdict.age_ms is not None
        assert verdict.patience_ms is not None
        assert verdict.age_ms <= verdict.patience_ms
        first = snapshot.blockers[0].cause if snapshot.blockers else None
        assert "stuck" not in (level.holder and level.holder.cause, first), (
            "the holder and its watermark have one patience"
        )
        contradicts = [text for text in said if NOT_ADVANCING.search(text)]
        assert not contradicts, f"{verdict.verdict}: {contradicts}"
    # (b)
    if verdict.verdict in ("stalled", "slow"):
        assert findings
        assert explained[0].cause
        assert findings[0].fixes
    # (c)
    _coloured(given, {style for _, style in parts[0].spans}, row.style)
    bad = verdict.verdict in ("stalled", "slow") or _worst(findings) == "critical"
    assert result.exit == (1 if bad else 3 if verdict.verdict == "unknown" else 0)
    # (d)
    assert row.verdict == verdict.verdict == result.verdict
    if level.moved_ms is not None and snapshot.now_ms is not None:
        assert verdict.age_ms == snapshot.now_ms - level.moved_ms == facts["age"]
    if verdict.verdict in ("stalled", "waiting"):
        age = age_words(verdict)
        assert f"{verdict.verdict.upper()} {age}" in line
        assert facts[f"{verdict.verdict}_for"] == verdict.age_ms
        assert "moved " not in watermark or f"moved {age} ago" in watermark
    # (e)
    if verdict.verdict == "stalled" and level.holder is not None and row.held_back_by is not None:
        assert row.held_back_by == result.held_back_by == level.holder.channel
        assert not snapshot.blockers or level.holder.channel in snapshot.blockers[0].channels
        assert level.holder.channel in holder

    silent = {channel for one in findings if one.code == "silent-channels" for channel in one.channels}
    if level.holder is not None and level.holder.cause == "behind":
        assert level.holder.channel not in silent, "one channel has one cause"

    if "no channel holds back" in holder:
        assert (row.held_back_by, result.held_back_by) == (None, None), level.holder
        assert not [one for one in findings if one.code == "watermark-stalled" and one.channels]
        assert not [text for text in said if "holds it back" in text and "No channel" not in text]


def _worst(findings: Iterable[Finding]) -> str | None:
    severities = {one.severity for one in findings}
    return next((name for name in ("critical", "warning", "info") if name in severities), None)


def _coloured(given: CheckInput, line: set[str], row: str) -> None:
    worst = _worst(given.findings)
    if given.verdict == "stalled" or worst == "critical":
        assert line == {"bad"} == {row}
    elif given.verdict == "slow" or worst == "warning":
        assert line == {"stale"} == {row}
