"""The rules that docs/attribution.md shows are those of the code."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.targets.flink.rules import (
    CHANNEL_RULES,
    HOLDER_RULES,
    SPLIT_AMONG_OTHERS_RULES,
    SPLIT_RULES,
    SUBTASK_RULES,
    Rule,
)

TABLES = (SPLIT_RULES, SPLIT_AMONG_OTHERS_RULES, SUBTASK_RULES, CHANNEL_RULES, HOLDER_RULES)
DOCUMENT = (Path(__file__).parents[3] / "docs/attribution.md").read_text()


def row(rule: Rule[Any, Any]) -> str:
    answer = rule.then if isinstance(rule.then, tuple) else (rule.then or "as by itself",)
    return f"| {rule.name} | {', '.join(part for part in answer if part)} | {rule.why} |"


@pytest.mark.parametrize("rules", TABLES)
def test_rules_in_the_document_are_those_of_the_code(rules: Sequence[Rule[Any, Any]]) -> None:
    table = "\n".join(["| rule | answer | why |", "|---|---|---|", *(row(rule) for rule in rules)])
    assert f"{table}\n\n" in DOCUMENT


def test_facts_that_rules_cite_are_in_the_document() -> None:
    cited = {fact for rules in TABLES for rule in rules for fact in re.findall(r"F\d+", rule.why)}
    assert cited == set(re.findall(r"^- \*\*(F\d+)\*\*", DOCUMENT, re.MULTILINE))


@pytest.mark.parametrize("rules", TABLES)
def test_names_of_rules_are_unique_and_the_last_rule_always_applies(rules: Sequence[Rule[Any, Any]]) -> None:
    assert len({rule.name for rule in rules}) == len(rules)
    assert rules[-1].when(None)
