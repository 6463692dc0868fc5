"""Findings in words: whole sentences with numbers and units, a fix for each, and harmless whatever the names are."""

import re
from collections.abc import Iterator
from datetime import UTC
from typing import get_args

import pytest
from wmtop.engine.doctor import RULES, Diagnosis, Fix, Severity, diagnose, explain, meaning_of
from wmtop.engine.doctor.finding import change_idle_timeout, names
from wmtop.engine.snapshot import Note, Offender, SiblingQuery, Snapshot, SparkProgress, Totals, WatermarkNode
from wmtop.engine.text.formatting import duration
from wmtop.engine.verdict.preview import ProposedSetting, now_gain_ms
from wmtop.tui.screens.doctor import SEVERITIES
from wmtop.tui.words.keys import LINKS

from tests.snapshots import replace

from ..tui import canned
from ..tui.canned import MINUTE, attached, live
from . import test_channels as channels
from .patients import DAY, HOUR, NOW, before, found, healthy
from .streams import Stream, traffic
from .test_clocks import broken, dated, shifted, stamped
from .test_costs import flying, losing
from .test_spark import AT_1970, query, stuck, two

FAILED = [SiblingQuery(name, name, "failed", "boom") for name in "abcde"]
UNREADABLE = [Note(NOW, "unreadable", {"why": "cannot read /ckpt/commits: Permission denied"})]
ILL = {
    "silent": channels.silent(10 * MINUTE),
    "quiet": channels.everybody_quiet(20 * MINUTE),
    "idle": channels.everybody_quiet(20 * MINUTE, None),
    "flapping": channels.flapping(40, 6 * MINUTE, late=2_000),
    "returning": channels.returning(3_000, 200),
    "lagging": channels.skewed(9 * MINUTE),
    "left behind": channels.spark(3 * MINUTE),
    "malformed": broken(200_000, 4_000),
    "all malformed": broken(0, 4_000),
    "unit": dated(NOW // 1000),
    "shifted": shifted(HOUR),
    "read time": stamped(),
    "late": losing(5_000),
    "hung": flying(20 * MINUTE),
    "pinned": query(AT_1970, nodes=two("own_output"), policy="min"),
    "no input": query(AT_1970, nodes=two("no_input"), policy="min"),
    "never moved": query(AT_1970, never_moved=True),
    "delay 0": query(nodes=[WatermarkNode("ts", 0, NOW)]),
    "dropped": query(dropped_at_least=9),
    "siblings": replace(query(), siblings=FAILED),
    "stuck": stuck(),
    "failed": replace(healthy(), state="failed", error="boom"),
    "starting": replace(healthy(), state="starting"),
    "paused": replace(healthy(), state="paused"),
    "partial": replace(healthy(), state="partial"),
    "stale": replace(healthy(), state="stale"),
    "stale query": replace(query(), state="stale", batch=7),
}


def diagnosed(snapshot: Snapshot) -> Iterator[Diagnosis]:
    past = before(snapshot) if snapshot.now_ms is not None else []
    return (explain(finding, snapshot, UTC) for finding in diagnose(snapshot, past))


def words(found: Diagnosis) -> str:
    return "\n".join([found.title, found.impact, found.cause, *found.evidence, *found.fixes])


def test_every_severity_has_a_word() -> None:
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
        assert rule.accounts_for <= {"stalled", "slow", "unknown", "waiting"}


def check_words(said: Diagnosis) -> None:
    """It has a title, cause, evidence and a fix, and links to a screen that exists."""
    assert all((said.title, said.impact, said.cause, said.evidence, said.fixes))
    text = words(said)
    assert not re.search(r"None(?! of)", text)
    assert "_ms" not in text
    assert "()" not in text
    assert all(len(line) < 220 for line in text.splitlines())
    known = {link.name for link in LINKS}
    assert said.code == "engine-starting" or said.channel is not None or known & set(said.screens)


@pytest.mark.parametrize("name", ILL)
def test_each_has_a_cause_evidence_and_a_fix(name: str) -> None:
    found = list(diagnosed(ILL[name]))
    assert found
    for said in found:
        check_words(said)


@pytest.mark.parametrize("name", canned.HOSTILE)
@pytest.mark.parametrize("ill", ["silent", "quiet", "flapping", "lagging", "left behind"])
def test_names_from_outside_are_only_text(name: str, ill: str) -> None:
    snapshot = ILL[ill]
    for said in diagnosed(replace(snapshot, channels=[replace(view, channel=name) for view in snapshot.channels])):
        assert "\x1b" not in words(said)
        assert "\t" not in words(said)
        assert all(len(line) < 220 for line in words(said).splitlines())


def test_of_many_channels_three_are_named() -> None:
    assert names(("F9", "YV", "VX", "AS", "HA")) == "F9, YV, VX and 2 more channels"
    assert found(channels.silent(10 * MINUTE))["silent-channels"].title.startswith("d holds back the watermark")


def test_of_several_channels_the_longest_silence_is_no_silence_of_all() -> None:
    assert found(channels.silent(10 * MINUTE))["silent-channels"].title.endswith("no data for 10m")
    [silent] = (
        Stream(channels.NO_TIMEOUT).run(60, traffic("abcd")).run(120, traffic("abc")).run(300, traffic("ab")).findings()
    )
    assert re.search("no data for up to [67]m", silent.title)


def test_the_fix_is_an_imperative_with_its_price_and_can_be_previewed() -> None:
    fix = Fix("set-idle-timeout", value_ms=15 * MINUTE, gain_ms=12 * MINUTE, more_late=658)
    assert fix.words(live()).startswith("Set an idle timeout of 15m (")
    assert "12m" in fix.words(live())
    assert "658" in fix.words(live())
    assert fix.proposed == ProposedSetting(True, 15 * MINUTE)


def test_the_gain_of_a_fix_is_what_enter_gives() -> None:
    snapshot = Stream().run(120, traffic("abcd")).run(200, traffic("bcd")).published[-1]
    now_ms = now_gain_ms(snapshot, ProposedSetting(True, MINUTE))
    assert now_ms
    fix = Fix("set-idle-timeout", value_ms=MINUTE, gain_ms=5 * 60 * MINUTE, promise_ms=now_ms)
    assert f"gains {duration(now_ms)} at once (5h if set from the start)" in fix.words(snapshot)


def test_in_an_attached_job_it_is_a_line_to_write() -> None:
    snapshot = replace(attached(), spark=SparkProgress(nodes=[WatermarkNode("ts", 30_000)]))
    assert 'withWatermark("ts", "45 minutes")' in Fix("set-lateness", value_ms=45 * MINUTE).words(snapshot)


def test_a_key_is_named_only_where_it_does_something() -> None:
    assert change_idle_timeout(live(), "shorten").text.endswith("(key [, --idle-after)")
    assert change_idle_timeout(live(whatif_idle=None), "shorten").text.endswith("(--idle-after)")


def test_records_from_the_future() -> None:
    last = Offender("EV", 81_204, NOW + 3 * DAY, "flights-1")
    snapshot = healthy(totals=Totals(records=200_000, late=800, future=17), last_future=last)
    [said] = diagnosed(snapshot)
    assert said.evidence[0].endswith("EV, offset 81,204 of flights-1")
    assert said.evidence[1].endswith("2023-11-17 22:13:20 UTC")


def test_times_beyond_the_calendar() -> None:
    [said] = diagnosed(dated(NOW * 1000))
    assert re.search(r"the year 5\d,\d{3}$", said.evidence[0])


def test_many_failed_queries_are_queries_and_not_channels() -> None:
    title = found(ILL["siblings"])["sibling-failed"].title
    assert "2 more queries" in title
    assert "channel" not in title


@pytest.mark.parametrize("name", ["partial", "stale query"])
def test_what_may_not_be_read_is_named_where_the_rest_is_unknown(name: str) -> None:
    free = next(diagnosed(ILL[name]))
    locked = next(diagnosed(replace(ILL[name], notes=UNREADABLE)))
    assert locked.code == free.code
    assert "/ckpt/commits: Permission denied" in locked.cause
    assert "/ckpt/commits" not in free.cause
