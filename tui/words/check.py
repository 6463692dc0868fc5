"""`wmtop check`: its facts, the conditions of `--fail-if`, and what it prints, in lines or as a table. Pure."""

import math
import operator
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from msgspec import Struct
from rich.cells import cell_len

from ...engine.doctor import Finding, accounts_for, diagnose
from ...engine.snapshot import EngineState, Snapshot, VerdictName
from ...engine.snapshot.recommendation import Recommendation
from ...engine.snapshot.watermark import WORST_FIRST
from ...engine.text import formatting as f
from ...engine.verdict.history import HistoryPoint, backlog, backlog_at_least, most
from ...engine.verdict.verdict import verdict_of
from .fact_values import AtLeast, Kind, Value, bounded, shown
from .kinds import chain, presenter_of
from .spans import fitted
from .verdict import age_words, lost_an_hour, usually
from .verdict_words import WORDS
from .watermark import held_ms, lag_ms, of_its_kind


class CheckInput(Struct, frozen=True):
    """The input for the facts."""

    snapshot: Snapshot
    past: Sequence[HistoryPoint]
    verdict: VerdictName
    findings: Sequence[Finding]


def check_input(snapshot: Snapshot, past: Sequence[HistoryPoint], lost: str | None) -> CheckInput:
    """The input by a snapshot and the history up to it; `lost`: why no further snapshot will come."""
    verdict = verdict_of(snapshot, lost=None if lost is None else "engine_lost")
    return CheckInput(snapshot, past, verdict.verdict, diagnose(snapshot, past, lost=lost))


class Fact(Struct, frozen=True):
    """A fact: the type of its values (durations in ms), and how it is computed."""

    kind: Kind
    take: Callable[[CheckInput], Value]


def _late_share_recent(given: CheckInput) -> Value:
    """The late share of the history (at most 15 min)."""
    if given.snapshot.totals.late is None or len(given.past) < 2:
        return None
    first, last = given.past[0], given.past[-1]
    return f.ratio(last.late - first.late, max(last.records - first.records, 0))


def _age(given: CheckInput) -> Value:
    """How long ago the watermark last advanced."""
    return bounded(given.snapshot.verdict.age_ms, is_part=given.snapshot.verdict.age_at_least)


def _age_while(verdict: VerdictName) -> Callable[[CheckInput], Value]:
    def take(given: CheckInput) -> Value:
        """The age of the watermark under that verdict; 0 under another known one."""
        if given.verdict == "unknown":
            return None
        return _age(given) if given.verdict == verdict else 0

    return take


def _backlog(given: CheckInput) -> Value:
    """The unread records; of a part of the channels 0 are no news of the others."""
    known, is_part = backlog(given.snapshot), backlog_at_least(given.snapshot)
    return None if is_part and not known else bounded(known, is_part=is_part)


def _behind_fastest(given: CheckInput) -> int | None:
    """Not a fact under Spark's rule: there the fastest channel sets the watermark."""
    return None if given.snapshot.one_clock else given.snapshot.level.behind_fastest_ms


def _in_state(state: str) -> Callable[[CheckInput], Value]:
    def count(given: CheckInput) -> Value:
        channels = given.snapshot.channels
        return sum(view.state == state for view in channels) if channels else None

    return count


def _speed(given: CheckInput) -> Value:
    """Event time that the watermark advanced by, per processing time: the verdict's, else that of the last minute."""
    if given.snapshot.verdict.speed is not None:
        return given.snapshot.verdict.speed
    points = [point for point in given.past if point.wall_ms >= given.past[-1].wall_ms - 60_000]
    is_known = given.verdict != "unknown" and given.snapshot.target.has_watermark
    if not is_known or len(points) < 2 or points[-1].now_ms <= points[0].now_ms:
        return None
    first, last = points[0].watermark_ms, points[-1].watermark_ms
    return None if first is None or last is None else (last - first) / (points[-1].now_ms - points[0].now_ms)


FACTS: dict[str, Fact] = {
    "level_lag": Fact("duration", lambda given: lag_ms(given.snapshot)),
    "behind_fastest": Fact("duration", _behind_fastest),
    "late_share": Fact("share", lambda given: f.ratio(given.snapshot.totals.late, given.snapshot.totals.records)),
    "late_share_recent": Fact("share", _late_share_recent),
    "holder_for": Fact("duration", lambda given: held_ms(given.snapshot)),
    "age": Fact("duration", _age),
    "stalled_for": Fact("duration", _age_while("stalled")),
    "waiting_for": Fact("duration", _age_while("waiting")),
    "idle": Fact("count", _in_state("idle")),
    "catching_up": Fact("count", _in_state("catching_up")),
    "backlog": Fact("count", _backlog),
    "backlog_time": Fact("duration", lambda given: most(given.snapshot.channels, lambda view: view.behind_end_ms)),
    "open_windows": Fact("count", lambda given: given.snapshot.windows.open_count),
    "state": Fact("word", lambda given: given.snapshot.state),
    "verdict": Fact("word", lambda given: given.verdict),
    "findings": Fact("count", lambda given: len(given.findings)),
    "speed": Fact("ratio", _speed),
    "batch_time": Fact("duration", lambda given: given.snapshot.spark.batch_ms),
}


KINDS_OF_FACTS: dict[str, Kind] = {**{name: fact.kind for name, fact in FACTS.items()}, **chain.NAMED_FACTS}
"""The types of the facts that are named in advance: those of every target, and those that only one kind has."""
WORD_VALUES: dict[str, tuple[str, ...]] = {"state": get_args(EngineState), "verdict": get_args(VerdictName)}
_CHANNEL_FACT = "lag"
"""The only fact of a channel."""


def facts_of(given: CheckInput) -> dict[str, Value]:
    """All facts by name, a plug-in's as `kind.name`; durations in ms, shares from 0 to 1."""
    return {**{name: fact.take(given) for name, fact in FACTS.items()}, **_named_facts(given)}


def _named_facts(given: CheckInput) -> dict[str, Value]:
    return presenter_of(given.snapshot).named_facts()


def channel_lag(given: CheckInput, pattern: str) -> tuple[Value, str | None]:
    """The greatest lag behind the clock (ms) of the channels whose whole name matches, and that channel.

    None if no channel matches, or a matching one has no watermark.
    """
    now_ms = given.snapshot.now_ms
    found = [view for view in given.snapshot.channels if re.fullmatch(pattern, view.channel)]
    lags = [
        (now_ms - view.watermark_ms, view.channel)
        for view in found
        if now_ms is not None and view.watermark_ms is not None
    ]
    return max(lags) if lags and len(lags) == len(found) else (None, None)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(channel\[(?>\\.|\[[^\]]*\]|[^\\\]])*+\]\.\w+|[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)?|>=|<=|==|!=|>|<|[0-9.]+\w*%?|\S)"
)
"""Nothing in it is tried twice: with backtracking, the time doubles with each bracket."""
_MAX_LENGTH = 4_096
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


def parse_fail_if(text: str, plugins: Collection[str] = ()) -> Expression:
    """The expression, with facts of these kinds of plug-ins; ValueError with one line that names what is wrong."""
    if not text.strip():
        raise ValueError(f"the condition is empty, {_EXAMPLE}")
    if len(text) > _MAX_LENGTH:
        raise ValueError(f"the condition has {len(text):,} characters; the longest is {_MAX_LENGTH:,}")
    tokens = [match[1] for match in _TOKEN.finditer(text.rstrip())]
    alternatives: list[tuple[Comparison, ...]] = []
    current: list[Comparison] = []
    while True:
        current.append(_comparison(tokens[:3], text, plugins))
        joint, tokens = tokens[3:4], tokens[4:]
        if joint not in (["and"], ["or"], []):
            raise ValueError(f"'{joint[0]}' is not expected after '{current[-1].text}': join comparisons by and, or")
        if joint != ["and"]:
            alternatives.append(tuple(current))
            current = []
        if not joint:
            return tuple(alternatives)


def evaluate(expression: Expression, given: CheckInput) -> Outcome:
    """Whether it is met: the comparisons that make it so, or not so, or the facts that are not known."""
    unknown: list[str] = []
    false: list[str] = []
    for alternative in expression:
        results = [_evaluate(comparison, given) for comparison in alternative]
        if all(result.met for result in results):
            return Outcome(True, " and ".join(result.words for result in results))
        not_met = [result.words for result in results if result.met is False]
        false += not_met
        unknown += [] if not_met else [result.words for result in results if result.met is None]
    return Outcome(None, ", ".join(unknown)) if unknown else Outcome(False, ", ".join(false))


def _evaluate(comparison: Comparison, given: CheckInput) -> Outcome:
    name = comparison.name
    if comparison.pattern is None:
        value = FACTS[name].take(given) if name in FACTS else _named_facts(given).get(name)
    else:
        value, channel = channel_lag(given, comparison.pattern)
        name = f"channel[{comparison.pattern if channel is None else f.clean(channel)}].{name}"
    if value is None or (name == "verdict" and value == "unknown" and comparison.value != "unknown"):
        return Outcome(None, name)
    if isinstance(value, str) != isinstance(comparison.value, str):
        return Outcome(None, name)  # a plug-in's word compared with a number, or the reverse
    if isinstance(value, AtLeast) and not _decides(value, comparison):
        return Outcome(None, f"{name}, {shown(value, comparison.kind)}")
    met = _OPERATORS[comparison.operator](value, comparison.value)
    return Outcome(met, f"{comparison.text} ({name} is {shown(value, comparison.kind)})")


def _decides(bound: AtLeast, comparison: Comparison) -> bool:
    """Whether the comparison has the same outcome for every value that is not below the bound."""
    limit = comparison.value
    return not isinstance(limit, str) and (bound > limit or (bound == limit and comparison.operator in (">=", "<")))


def _comparison(tokens: list[str], text: str, plugins: Collection[str]) -> Comparison:
    if len(tokens) < 3 or tokens[1] not in _OPERATORS:
        raise ValueError(f"'{' '.join(tokens) or text}' is not a comparison, {_EXAMPLE}")
    fact, sign, value = tokens
    pattern, name = _fact(fact, plugins)
    kind = "duration" if pattern is not None else KINDS_OF_FACTS[name] if name in KINDS_OF_FACTS else _kind_of(value)
    if kind == "word" and sign not in ("==", "!="):
        raise ValueError(f"{name} is a word: compare it with == or !=, not {sign}")
    return Comparison(" ".join(tokens), name, sign, _value(value, name, kind), kind, pattern)


def _fact(text: str, plugins: Collection[str]) -> tuple[str | None, str]:
    """The pattern of a channel's fact, and the fact's name."""
    if not text.startswith("channel["):
        if text in KINDS_OF_FACTS or ("." in text and text.partition(".")[0] in plugins):
            return None, text
        near = get_close_matches(text, KINDS_OF_FACTS, 1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ValueError(f"'{text}' is not a fact; {hint}facts: {', '.join(KINDS_OF_FACTS)}, channel[NAME].lag")
    pattern, name = text[len("channel[") :].rsplit("].", 1)
    if name != _CHANNEL_FACT:
        raise ValueError(f"'{name}' is not a fact of a channel; facts: {_CHANNEL_FACT}")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ValueError(f"'{pattern}' is not a regular expression: {error}") from None
    return pattern, name


def _kind_of(value: str) -> Kind:
    """The kind of a plug-in's fact, by the value that it is compared with."""
    if re.fullmatch(r"[0-9.]+", value):
        return "ratio"
    return "share" if value.endswith("%") else "duration" if value[0] in "0123456789" else "word"


def _value(text: str, name: str, kind: Kind) -> float | str:
    if kind == "word":
        if name in WORD_VALUES and text not in WORD_VALUES[name]:
            raise ValueError(f"'{text}' is not a {name}: use {', '.join(WORD_VALUES[name])}")
        return text
    if kind == "duration":
        try:
            return f.parse_duration(text)
        except ValueError:
            raise ValueError(f"'{text}' is not a duration for {name}, e.g. 250ms, 45s, 30m, 2h or 1d") from None
    try:
        number = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        if not math.isfinite(number):  # no fact is ever above it, and none is compared with NaN
            raise ValueError
    except ValueError:
        raise ValueError(f"'{text}' is not a number for {name}, e.g. {'1%' if kind == 'share' else '10'}") from None
    if text.endswith("%") and kind != "share":
        raise ValueError(f"{name} is not a share: give a number without %, not {text}")
    if kind == "share" and number >= 1:
        raise ValueError(f"{name} is never above 100 %: {text} stands for {100 * number:g} %, give e.g. 1% or 0.01")
    return number


BAD = ("slow", "stalled")


class CheckedFinding(Struct, frozen=True):
    """A finding as `--json` prints it; the first five names are contract."""

    code: str
    severity: str
    channels: list[str]
    cause: str
    fix: str
    title: str
    evidence: list[str]


class Checked(Struct, frozen=True):
    """The result for one target; `facts` are durations in ms, shares from 0 to 1, None where not known."""

    target: str
    verdict: VerdictName
    reason: str
    findings: list[CheckedFinding]
    facts: dict[str, Value]
    exit: int
    met: str | None = None
    """The comparisons that made `--fail-if` true, with their numbers."""
    not_known: str | None = None
    """The facts that `--fail-if` needs and this target lacks."""
    not_met: str | None = None
    """The comparisons that made `--fail-if` false, with their numbers."""
    at_least: list[str] = []
    """The names of the facts that are lower bounds."""
    held_back_by: str | None = None
    recommendation: Recommendation | None = None
    read: str = ""
    """What the name led to: `recording, ends 2013-02-08 14:02:00 UTC`."""


_REASONS = {
    "moving": "The watermark advances",
    "waiting": "No record has come lately, and nothing is unread",
    "ended": "The stream has ended",
    "slow": "The watermark falls behind",
    "stalled": "The watermark does not advance",
    "unknown": "Too little is known for a verdict",
}


def reason_of(given: CheckInput) -> str:
    """The verdict in a sentence: a bad one by the first finding that accounts for it, any other by a critical finding,
    else by its numbers.
    """
    findings = given.findings
    if given.verdict in (*BAD, "unknown", "waiting"):
        title = next((finding.title for finding in findings if accounts_for(finding, given.verdict)), None)
        if title is not None:
            return title
    if given.verdict != "ended" and findings and findings[0].severity == "critical":
        return findings[0].title  # the watermark may advance because of a wrong timestamp
    if given.verdict == "ended":
        return presenter_of(given.snapshot).end_sentence()
    verdict, numbers = given.snapshot.verdict, list[str]()
    if given.verdict == "slow":
        numbers.append(f"by {f.duration(lost_an_hour(verdict))} an hour")
    elif given.verdict in ("stalled", "waiting") and (age := age_words(verdict)) is not None:
        numbers.append(f"for {age}{'' if (usual := usually(verdict)) is None else f' ({usual})'}")
    if (behind_ms := _behind_fastest(given)) is not None:
        numbers.append(f"{f.duration(behind_ms)} behind the fastest channel")
    has_said = presenter_of(given.snapshot).headline() is not None  # how far a chain's end is behind its start
    if (behind_ms := lag_ms(given.snapshot)) is not None and not has_said:
        numbers.append(f.behind_clock(behind_ms))
    said_so = of_its_kind(given.snapshot, _REASONS[given.verdict])
    return "; ".join(text for text in (said_so, ", ".join(numbers)) if text)


def lines(result: Checked) -> Iterator[str]:
    """A target in full: verdict, condition, findings."""
    read = f"  ({f.clean(result.read)})" if result.read else ""
    yield f"{f.clean(result.target)}: {result.verdict.upper()}  {result.reason}{read}"
    outcomes = (("true", result.met), ("false", result.not_met), ("not known from this target", result.not_known))
    yield from (f"  {head}: {words}" for head, words in outcomes if words is not None)
    for finding in result.findings:
        yield f"  {finding.severity}: {finding.title}"
        yield f"    {finding.cause}"
        if finding.fix:
            yield f"    fix: {finding.fix}"


_COLUMNS = ("TARGET", "VERDICT", "LAG", "HELD BACK BY", "LATE", "BACKLOG", "REASON")
MIN_REASON = 40
"""Cells for a reason in the table, at least, however narrow the table is."""


def table(results: Sequence[Checked], width: int) -> list[str]:
    """All targets, a row each, the worst first, in `width` cells; `check TARGET` has the whole reason."""
    ranked = sorted(results, key=lambda one: ({1: 0, 3: 1}.get(one.exit, 2), WORST_FIRST.index(one.verdict)))
    rows = [_COLUMNS, *(_row(result) for result in ranked)]
    widths = [max(cell_len(row[place]) for row in rows) for place in range(len(_COLUMNS) - 1)]
    left = max(width - sum(widths) - 2 * len(widths), MIN_REASON)
    return [
        "  ".join([*(f.pad(text, cells) for text, cells in zip(row, widths, strict=False)), fitted(row[-1], left)])
        for row in rows
    ]


def _row(result: Checked) -> tuple[str, ...]:
    facts = result.facts
    lag = facts["behind_fastest"] if facts["behind_fastest"] is not None else facts["level_lag"]
    held = f.UNKNOWN if result.held_back_by is None else f.clean(result.held_back_by)
    why = result.met or (result.reason if result.not_known is None else f"not known: {result.not_known}")
    cells = (shown(lag, "duration"), held, shown(facts["late_share"], "share"), shown(facts["backlog"], "count"))
    return (f.clean(result.target), WORDS[result.verdict], *cells, why)
