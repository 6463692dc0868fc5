"""`wmtop explain`: a finding in general, an unknown code with similar ones, the list; `docs/findings.md` has all."""

import re
from pathlib import Path

import pytest
from wmtop.engine.doctor import RULES, meaning_of
from wmtop.engine.system.errors import UsageError
from wmtop.tui.cli.check import MAX_COLUMNS, explain, explanation, finding_codes

PAGE = Path(__file__).parents[3] / "docs" / "findings.md"


@pytest.mark.parametrize("code", ["silent-channels", "Silent_Channels "])
def test_explain_a_code_prints_the_three_parts(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    explain(code)
    printed = capsys.readouterr().out
    assert printed.startswith("silent-channels\n\nChannels without data hold back the watermark")
    assert "\nHow it is recognised: " in printed
    assert "\nWhat to do: " in printed


def test_explain_an_unknown_code_names_similar_ones() -> None:
    with pytest.raises(UsageError, match=r"^no finding 'silent-chanels'; did you mean 'silent-channels'"):
        explain("silent-chanels")
    with pytest.raises(UsageError, match=r"^no finding 'zzzz'; 'wmtop explain' lists all$"):
        explain("zzzz")


def test_explain_without_a_code_lists_one_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    explain(None)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == sorted(RULES)
    assert "zero-delay                The watermark delay is 0" in lines


@pytest.mark.parametrize("code", RULES)
def test_explanation_of_each_code_fits_the_width(code: str) -> None:
    assert all(len(line) <= MAX_COLUMNS for line in explanation(meaning_of(code), MAX_COLUMNS).splitlines())


def test_findings_page_has_an_anchor_for_every_code() -> None:
    assert re.findall(r"^## (\S+)$", PAGE.read_text(), re.MULTILINE) == sorted(RULES)


def test_finding_codes_complete_a_prefix() -> None:
    assert finding_codes("zone") == ["zone-shift"]
