"""Findings in words: whole sentences with numbers and units, a fix for each, and harmless whatever the names are."""

import re
import types
from datetime import UTC
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import pytest
from wmtop.engine.doctor import RULES, Diagnosis, Finding, Fix, Severity, explain, meaning_of
from wmtop.engine.doctor.attached import QueryStale
from wmtop.engine.doctor.blocking import SilentChannels
from wmtop.engine.doctor.clocks import FutureTimestamps, WrongUnit
from wmtop.engine.doctor.condition import PartlyUnknown
from wmtop.engine.doctor.finding import change_idle_timeout
from wmtop.engine.doctor.lateness import LatenessTooSmall
from wmtop.engine.doctor.spark import SiblingFailed
from wmtop.engine.snapshot import Note, Offender, SparkProgress, WatermarkNode
from wmtop.engine.text.formatting import duration
from wmtop.engine.verdict.preview import ProposedSetting, now_gain_ms
from wmtop.tui.screens.doctor import SEVERITIES
from wmtop.tui.words.keys import LINKS

from tests.snapshots import replace

from ..tui import canned
from ..tui.canned import DAY, MINUTE, NOON, NOW, attached, live
from .streams import Stream, traffic

SAMPLES: dict[type, Any] = {int: 7 * MINUTE, float: 0.25, str: "ts", bool: True}
PICKED: dict[str, Any] = {
    "severity": "warning", "unit": "ms", "better": "s",
    "also": (("device", "old", 0.4), ("region", "eu", 0.2)),
    "columns": ("ts", None), "queries": ("clicks", "views"), "channels": ("F9", "YV", "VX", "AS"),
    "tasks": ("w5", "sessions"), "sources": ("kafka[a]", "kafka[b]"), "silent": ("source 1: files",), "newest": ("F9",),
    "phase": "commit_ms",
    "fixes": (Fix("set-idle-timeout", value_ms=15 * MINUTE, gain_ms=12 * MINUTE, more_late=658),),
}  # fmt: skip


def sample(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Literal else SAMPLES[hint]


def example(kind: type[Finding], *, known: bool) -> Finding:
    """A finding of that kind, with everything known, or with as little as its types allow."""
    values: dict[str, Any] = {}
    for field, hint in get_type_hints(kind).items():
        if field not in kind.__struct_fields__:
            continue
        options = get_args(hint) if get_origin(hint) in (types.UnionType, Union) else (hint,)
        if field in PICKED and (known or type(None) not in options):
            values[field] = PICKED[field]
        else:
            values[field] = None if type(None) in options and not known else sample(options[0])
    return kind(**values)


EXAMPLES = [example(rule.finding, known=known) for rule in RULES.values() for known in (True, False)]


def leaves(kind: type[Finding]) -> set[type[Finding]]:
    return {kind} if kind is not Finding else {leaf for sub in kind.__subclasses__() for leaf in leaves(sub)}


def words(found: Diagnosis) -> str:
    return "\n".join([found.title, found.impact, found.cause, *found.evidence, *found.fixes])


def test_every_finding_has_a_rule_and_every_severity_a_word() -> None:
    assert {rule.finding for rule in RULES.values()} == leaves(Finding)
    assert set(SEVERITIES) == set(get_args(Severity))


@pytest.mark.parametrize("code", RULES)
def test_every_code_explains_itself(code: str) -> None:
    meaning = meaning_of(code)
    for text in (meaning.means, meaning.recognised_by, meaning.what_to_do):
        assert text[0].isupper() or text[0].isdigit() or text[0] == "`"
        assert text.endswith(".")
        assert not re.search(r"_ms|\bNone\b|self", text)


def test_rules_name_only_findings_that_exist() -> None:
    for rule in RULES.values():
        assert rule.suppressed_by <= set(RULES)
        assert rule.accounts_for <= {"stalled", "slow", "unknown"}


@pytest.mark.parametrize("finding", EXAMPLES, ids=lambda finding: finding.code)
@pytest.mark.parametrize("snapshot", [live(), attached(), canned.empty()], ids=["live", "attached", "empty"])
def test_each_has_a_cause_evidence_and_a_fix(finding: Finding, snapshot: Any) -> None:
    found = explain(finding, snapshot, UTC)
    assert all((found.title, found.impact, found.cause, found.evidence, found.fixes))
    text = words(found)
    assert not re.search(r"None(?! of)", text)
    assert "_ms" not in text
    assert "()" not in text
    assert all(len(line) < 220 for line in text.splitlines())


@pytest.mark.parametrize("finding", EXAMPLES, ids=lambda finding: finding.code)
def test_each_links_to_a_screen_that_exists(finding: Finding) -> None:
    found = explain(finding, live(), UTC)
    known = {link.name for link in LINKS}
    assert finding.code == "engine-starting" or found.channel is not None or known & set(found.screens)


@pytest.mark.parametrize("name", canned.HOSTILE)
def test_names_from_outside_are_only_text(name: str) -> None:
    for finding in EXAMPLES:
        text = words(explain(replace(finding, channels=(name, name)), live(), UTC))
        assert "\x1b" not in text
        assert "\t" not in text
        assert all(len(line) < 220 for line in text.splitlines())


def of(kind: type[Finding], **values: Any) -> Diagnosis:
    return explain(replace(example(kind, known=True), **values), live(), UTC)


def test_of_many_channels_three_are_named() -> None:
    found = of(SilentChannels, channels=("F9", "YV", "VX", "AS", "HA"))
    assert found.title.startswith("F9, YV, VX and 2 more channels ")
    assert of(SilentChannels, channels=("F9",)).title.startswith("F9 holds back the watermark")


def test_of_several_channels_the_longest_silence_is_no_silence_of_all() -> None:
    assert "no data for up to 7m" in of(SilentChannels, never_seen=0).title
    assert "no data for 7m" in of(SilentChannels, never_seen=0, channels=("F9",)).title


def test_the_fix_is_an_imperative_with_its_price_and_can_be_previewed() -> None:
    found = of(SilentChannels)
    assert found.fixes[0].startswith("Set an idle timeout of 15m (")
    assert "12m" in found.fixes[0]
    assert "658" in found.fixes[0]
    assert found.proposed == ProposedSetting(True, 15 * MINUTE)


def test_the_gain_of_a_fix_is_what_enter_gives() -> None:
    snapshot = Stream().run(120, traffic("abcd")).run(200, traffic("bcd")).published[-1]
    now_ms = now_gain_ms(snapshot, ProposedSetting(True, MINUTE))
    assert now_ms
    fix = Fix("set-idle-timeout", value_ms=MINUTE, gain_ms=5 * 60 * MINUTE, promise_ms=now_ms)
    said = explain(replace(example(SilentChannels, known=True), fixes=(fix,)), snapshot, UTC).fixes[0]
    assert f"gains {duration(now_ms)} at once (5h if set from the start)" in said


def test_in_an_attached_job_it_is_a_line_to_write() -> None:
    snapshot = replace(attached(), spark=SparkProgress(nodes=[WatermarkNode("ts", 30_000)]))
    fix = Fix("set-lateness", value_ms=45 * MINUTE)
    found = explain(replace(example(LatenessTooSmall, known=True), fixes=(fix,)), snapshot, UTC)
    assert 'withWatermark("ts", "45 minutes")' in found.fixes[0]


def test_a_key_is_named_only_where_it_does_something() -> None:
    assert change_idle_timeout(live(), "shorten").text.endswith("(key [, --idle-after)")
    assert change_idle_timeout(live(whatif_idle=None), "shorten").text.endswith("(--idle-after)")


def test_records_from_the_future() -> None:
    last = Offender("EV", 81_204, NOW + 3 * DAY, "flights-1")
    finding = replace(example(FutureTimestamps, known=True), channels=("EV",), timestamp_ms=last.timestamp_ms)
    found = explain(finding, live(last_future=last), UTC)
    assert found.evidence[0].endswith("EV, offset 81,204 of flights-1")
    assert found.evidence[1].endswith("2013-02-11 14:32:10 UTC")


def test_times_beyond_the_calendar() -> None:
    assert of(WrongUnit, seen_ms=NOON * 1000).evidence[0].endswith("the year 45,076")


def test_many_failed_queries_are_queries_and_not_channels() -> None:
    title = of(SiblingFailed, queries=("a", "b", "c", "d", "e"), error="boom").title
    assert "2 more queries" in title
    assert "channel" not in title


@pytest.mark.parametrize("found", [QueryStale(severity="critical", age_ms=MINUTE), PartlyUnknown(severity="info")])
def test_what_may_not_be_read_is_named_where_the_rest_is_unknown(found: Finding) -> None:
    note = Note(NOW, "unreadable", {"why": "cannot read /ckpt/commits: Permission denied"})
    locked, free = (explain(found, replace(attached(), notes=notes), None) for notes in ([note], []))
    assert "/ckpt/commits: Permission denied" in locked.cause
    assert "/ckpt/commits" not in free.cause
