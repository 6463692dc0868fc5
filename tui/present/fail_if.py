"""The expressions of `wmtop check --fail-if`: comparisons of named facts, joined by `and` and `or`. Pure.

    expression = conjunction { "or" conjunction }
    conjunction = comparison { "and" comparison }
    comparison = fact operator value
    fact = NAME | "channel[" REGEX "]." NAME
    operator = ">" | ">=" | "<" | "<=" | "==" | "!="
    value = DURATION | PERCENT | NUMBER | WORD

A comparison with a fact that is not known is neither true nor false (Kleene's logic).
"""

import operator
import re
from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from . import formatting as f
from .check_facts import CHANNEL_FACTS, FACTS, WORDS, CheckInput, Kind, Value, channel_fact

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
_TOKEN = re.compile(r"\s*(channel\[(?:\\.|\[[^\]]*\]|[^\\\]])*\]\.\w+|[A-Za-z_]\w*|>=|<=|==|!=|>|<|[\d.]+\w*%?|\S)")
_EXAMPLE = "e.g. 'level_lag > 10m and late_share > 1%'"


class Comparison(Struct, frozen=True):
    """One comparison; `pattern` selects channels if the fact is a channel's. `text` is as written."""

    text: str
    name: str
    operator: str
    value: float | str
    kind: Kind
    pattern: str | None = None


Expression = tuple[tuple[Comparison, ...], ...]
"""Alternatives (`or`) of comparisons that must all be true (`and`)."""


class Outcome(Struct, frozen=True):
    """The result of an expression: `met` None is not known; `words` name the comparisons with their numbers."""

    met: bool | None
    words: str


def parse_fail_if(text: str) -> Expression:
    """The expression; ValueError with one line that names what is wrong."""
    tokens = _tokens(text)
    alternatives: list[tuple[Comparison, ...]] = []
    current: list[Comparison] = []
    while True:
        current.append(_comparison(tokens[:3], text))
        joint, tokens = tokens[3:4], tokens[4:]
        if joint not in (["and"], ["or"], []):
            raise ValueError(f"'{joint[0]}' is not expected after '{current[-1].text}': join comparisons by and, or")
        if joint != ["and"]:
            alternatives.append(tuple(current))
            current = []
        if not joint:
            return tuple(alternatives)


def evaluate(expression: Expression, given: CheckInput) -> Outcome:
    """Whether it is met: the comparisons that make it so, or the facts that are not known."""
    unknown: list[str] = []
    for alternative in expression:
        results = [_evaluate(comparison, given) for comparison in alternative]
        if all(result.met for result in results):
            return Outcome(True, " and ".join(result.words for result in results))
        if all(result.met is not False for result in results):
            unknown += [result.words for result in results if result.met is None]
    return Outcome(None, ", ".join(unknown)) if unknown else Outcome(False, "")


def shown(value: Value, kind: Kind) -> str:
    """A fact's value with its unit."""
    if value is None or isinstance(value, str):
        return f.UNKNOWN if value is None else value
    if kind == "duration":
        return f.duration(value)
    if kind == "share":
        return f.share(value)
    return f"{value:.2f}" if kind == "ratio" else f.count(round(value))


def _evaluate(comparison: Comparison, given: CheckInput) -> Outcome:
    name, value = comparison.name, None
    if comparison.pattern is None:
        value = FACTS[name].take(given)
    else:
        value, channel = channel_fact(given, re.compile(comparison.pattern))
        name = f"channel[{comparison.pattern if channel is None else f.clean(channel)}].{name}"
    if value is None or (name == "verdict" and value == "unknown" and comparison.value != "unknown"):
        return Outcome(None, name)
    met = _OPERATORS[comparison.operator](value, comparison.value)
    return Outcome(met, f"{comparison.text} ({name} is {shown(value, comparison.kind)})")


def _tokens(text: str) -> list[str]:
    if not text.strip():
        raise ValueError(f"the condition is empty, {_EXAMPLE}")
    return [match[1] for match in _TOKEN.finditer(text.rstrip())]


def _comparison(tokens: list[str], text: str) -> Comparison:
    if len(tokens) < 3 or tokens[1] not in _OPERATORS:
        raise ValueError(f"'{' '.join(tokens) or text}' is not a comparison, {_EXAMPLE}")
    fact, sign, value = tokens
    pattern, name = _fact(fact)
    kind = FACTS[name].kind if pattern is None else CHANNEL_FACTS[name]
    if kind == "word" and sign not in ("==", "!="):
        raise ValueError(f"{name} is a word: compare it with == or !=, not {sign}")
    return Comparison(" ".join(tokens), name, sign, _value(value, name, kind), kind, pattern)


def _fact(text: str) -> tuple[str | None, str]:
    """The pattern of a channel's fact, and the fact's name."""
    if not text.startswith("channel["):
        if text in FACTS:
            return None, text
        near = get_close_matches(text, FACTS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"'{text}' is not a fact; {hint}facts: {', '.join(FACTS)}, channel[NAME].lag")
    pattern, name = text[len("channel[") :].rsplit("].", 1)
    if name not in CHANNEL_FACTS:
        raise ValueError(f"'{name}' is not a fact of a channel; facts: {', '.join(CHANNEL_FACTS)}")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"'{pattern}' is not a regular expression: {error}") from None
    return pattern, name


def _value(text: str, name: str, kind: Kind) -> float | str:
    if kind == "word":
        if text not in WORDS[name]:
            raise ValueError(f"'{text}' is not a {name}: use {', '.join(WORDS[name])}")
        return text
    if kind == "duration":
        try:
            return f.parse_duration(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a duration for {name}, e.g. 250ms, 45s, 30m, 2h or 1d") from None
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        raise ValueError(f"'{text}' is not a number for {name}, e.g. {'1%' if kind == 'share' else '10'}") from None
    if text.endswith("%") and kind != "share":
        raise ValueError(f"{name} is not a share: give a number without %, not {text}")
    if kind == "share" and number > 1:
        raise ValueError(f"{name} is never above 100 %: {text} stands for {f.share(number)}, e.g. 1% or 0.01")
    return number
