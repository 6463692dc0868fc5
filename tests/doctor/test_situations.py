"""The scored table: in every situation what must be found is found, and nothing else; a healthy one has no findings."""

import re
from datetime import UTC

import pytest
from wmtop.engine.doctor import explain
from wmtop.engine.text.formatting import setting

from .patients import said
from .situations import SITUATIONS
from .streams import MINUTE, SECOND
from .test_explanations import check_words

pytestmark = pytest.mark.hours


def test_the_table_is_large_enough() -> None:
    assert len(SITUATIONS) >= 40
    assert sum(one.healthy for one in SITUATIONS.values()) >= 12


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.matrix] if "ten_thousand" in name else []) for name in SITUATIONS]
)
def test_situation(name: str) -> None:
    situation = SITUATIONS[name]
    stream = situation.build()
    findings = stream.findings(**situation.reader)
    found = {finding.code for finding in findings}
    assert found >= situation.must
    assert found <= situation.must | situation.may
    for finding in findings:
        check_words(explain(finding, stream.published[-1], UTC))


def test_a_lagging_channel_is_not_blamed_for_the_lag_of_a_silent_one() -> None:
    [silent, lagging] = SITUATIONS["one_dead_partition_and_one_far_behind"].build().findings()
    assert (silent.channels, lagging.channels) == (("d",), ("c",))
    assert abs(lagging.size - 5 * MINUTE) < 10 * SECOND


def test_a_partition_that_repeats_itself_is_critical_and_no_idle_timeout_is_advised() -> None:
    [finding] = SITUATIONS["a_partition_that_repeats_one_timestamp"].build().findings()
    assert finding.code == "lagging-channels"
    assert (finding.severity, finding.channels, [fix.code for fix in finding.fixes]) == (
        "critical",
        ("d",),
        ["check-channels"],
    )
    assert re.search(r"Watermark unchanged for [4-9]m", said(finding))


def test_a_lateness_that_keeps_back_every_result_is_a_warning() -> None:
    [finding] = SITUATIONS["a_lateness_of_thirty_days_under_which_no_window_has_fired"].build().findings()
    assert finding.code == "lateness-too-large"
    assert finding.severity == "warning"
    assert re.match(r"No result yet: \d+ windows would have fired", finding.impact)
    assert finding.impact.endswith(f" {setting(finding.fixes[0].value_ms)}")
