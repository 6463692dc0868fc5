"""Parses the text of a Spark plan: watermarks and where their times come from, stateful operators, checkpoint."""

import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from math import prod

import msgspec
from msgspec import UNSET, Struct, UnsetType

from ...snapshot import OperatorKind, OutputMode, StatefulOperator
from ...system.errors import one_line
from ..topic import RECORD
from .files import decode_json


class PlannedWatermark(Struct, frozen=True):
    """One `withWatermark` of the plan."""

    column: str
    delay_ms: int
    inputs: tuple[str, ...] = ()
    """The taps (`InputFacts.name`) whose rows it sees."""
    sources: tuple[int, ...] = ()
    """The leaves of the plan whose rows it sees, counted from the left."""
    above: tuple[int, ...] = ()
    """The other watermarks of the plan that its rows passed before."""
    after_state: bool = False
    """Its rows come from a stateful operator."""
    filtered: bool = False
    """Rows of its sources may not reach it, because of a filter or a join below it."""
    filtered_taps: bool = False
    """The same for its taps."""
    twin: int | None = None
    """The plan's first watermark with the same rows, in a query with one source: both read it in the same way."""
    record_time: str | None = None
    """The place of its column in Kafka's records (`plan.record_time`); None: not proved, or another source."""


class PlanFacts(Struct, frozen=True):
    """The facts from the query's plan, from its sink down to its sources."""

    nodes: tuple[PlannedWatermark, ...] = ()
    checkpoint: str | None = None
    """Its directory, or a URI if it is on no local file system; None: not known (a query without state)."""
    operators: tuple[StatefulOperator, ...] = ()
    leaves: int = 0
    """The number of the plan's leaves: its sources, and tables that it joins."""
    reads: int = 0
    """How often it reads rows with a watermark: a source that is joined with itself is read twice."""
    copies: int = 1
    """How many rows it makes of one, at most: one for each sliding window that has it."""
    trigger_ms: int | None = None
    """The trigger's interval; 0: a batch begins as the last one has ended; None: not known (plans do not show it)."""
    real_time_ms: int | None = None
    """The length of a batch in real-time mode; None: another mode."""
    writes: tuple[str, ...] | None = None
    """The addresses of the topics that its sink is set to write; None: another sink, or not known (as by plans)."""
    slowest_clock: bool = False
    """The slowest partition drives the clock: a setting of Databricks (`ADVANCEMENT`)."""


ADVANCEMENT = "spark.databricks.streaming.watermarkAdvancementStrategy"


def is_slowest_clock(strategy: str | None) -> bool:
    """Whether that value of `ADVANCEMENT` makes the slowest partition drive the clock."""
    return strategy is not None and strategy.lower() == "min"


_CASTS = (
    re.compile(r"cast\((?P<of>.+) as (?:timestamp|timestamp_ltz|bigint|double|decimal\(\d+,\d+\))\)"),
    re.compile(r"(?:timestamp_millis|timestamp_micros|timestamp_seconds)\((?P<of>.+)\)"),
    re.compile(r"\((?P<of>.+) / 1000(?:\.0)?D?\)"),
    re.compile(r"knownnullable\((?P<of>.+)\)"),
)
"""Casts of a field to a time that follow the same rules as wmtop's own reading: units by their size."""
_FIELD = re.compile(r"(?P<of>.*\)|[^().]+#\d+)\.(?P<path>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)")
_FROM_JSON = re.compile(r"from_json\(StructField\(.+\), (?P<of>[^,]+), Some\((?P<zone>[^)]+)\)(?:, \w+)?\)")
_GET_JSON = re.compile(r"get_json_object\((?P<of>.+), (?P<path>\$\.[\w.]+)\)")
_NUMBER = re.compile(r"timestamp_|cast\(.+ as (?:bigint|double|decimal)|\(.+ / ")
"""A cast of a field to a number, which has no time zone."""
_TEXT = re.compile(r"cast\((?P<of>[^()]+#\d+) as string\)")
_ATTRIBUTE = re.compile(r"[^(),.\s]+#\d+")
_KAFKA = re.compile(r"\w*Scan\[(?P<columns>[^\]]*)\] class org\.apache\.spark\.sql\.kafka010\.")
_UTC = frozenset(("UTC", "Etc/UTC", "GMT", "Z", "Etc/GMT", "Etc/UCT", "UCT", "Zulu"))
_PASSES = ("WholeStageCodegen", "InputAdapter", "Filter ", "CollectMetrics ", "Exchange ", "EventTimeWatermark ")
"""Nodes that leave a column unchanged."""


def record_time(column: str, below: Sequence[str]) -> str | None:
    """The place of a column (`ts#12`) in the records of the one Kafka source that `below`, the plan under its watermark
    from top to bottom, reads.

    None where the plan does not prove it: several inputs, computed times, other formats, zones other than UTC.
    """
    wanted, path = column, ""
    for text in below:
        if leaf := _KAFKA.match(text):
            name = wanted.partition("#")[0] if wanted in leaf["columns"].split(", ") else None
            if name == "timestamp" and not path:
                return RECORD
            return path if name == "value" and path else None
        if text.startswith("Project ["):
            definition = _defined(wanted, text)
            simple = None if definition is None else _simplified(definition, path)
            if simple is None:
                return None
            wanted, path = simple
        elif not text.startswith(_PASSES):
            return None
    return None


def _defined(attribute: str, project: str) -> str | None:
    """The definition of a name in a projection; the attribute itself if it is only passed on."""
    place = project.find(f" AS {attribute}")
    after = place + len(f" AS {attribute}")
    if place < 0 or project[after : after + 1].isdigit():
        passed = re.search(rf"[\[ ]{re.escape(attribute)}(?:-T\d+ms)?[\],]", project)
        return attribute if passed else None
    depth, start = 0, place
    while start > 0:
        letter = project[start - 1]
        depth += (letter in ")]") - (letter in "([")
        if depth < 0 or (depth == 0 and project[start - 2 : start] == ", "):
            break
        start -= 1
    return project[start:place].strip()


def _simplified(expression: str, path: str) -> tuple[str, str] | None:
    """The attribute that an expression reads, and the path into it; `path` leads on from the expression."""
    number = False
    while not _ATTRIBUTE.fullmatch(expression):
        if not path and (cast := next((match for pattern in _CASTS if (match := pattern.fullmatch(expression))), None)):
            number = number or _NUMBER.match(expression) is not None
            expression = cast["of"]
        elif text := _TEXT.fullmatch(expression):
            expression = text["of"]
        elif parsed := _FROM_JSON.fullmatch(expression):
            if parsed["zone"] not in _UTC or not path:
                return None
            expression = parsed["of"]
        elif got := _GET_JSON.fullmatch(expression):
            if path or not number:  # which zone a text without one is in is not visible here
                return None
            expression, path = got["of"], got["path"]
        elif field := _FIELD.fullmatch(expression):
            expression, path = field["of"], f"$.{field['path']}{path[1:]}"
        else:
            return None
    return expression, path


TAP = "wmtop:"
"""Prefix of the names of taps' `observe`s."""

Line = tuple[int, str]
"""A node's depth in the plan, and its text."""
_NODE = re.compile(r"(?P<indent>[ :|+\-]*)(?:\* )?(?P<name>\w[^()]*?) \((?P<number>\d{1,6})\)(?: \[[^\]]*\])?")
_DETAILS = re.compile(r"\((\d{1,6})\) \w")
_DETAIL = re.compile(r"(Arguments|Condition|Output|Keys)(?: \[\d+\])?\s*: (.*)", re.DOTALL)
_IN_FORCE = re.compile(
    r"state info \[ [^\]]*\](?: stateStoreCkptIds = [^,]*)?, (?:[12], )?(?:(?:Append|Update|Complete), )?"
    r"(?:\w+Timeout, )?(?:-?[0-9]{1,19}, ){1,3}?(-?[0-9]{1,19})(?:, [12])?(?!, -?[0-9])(?:,|$)"
)
"""The watermarks that a stateful operator compares late rows with, and removes state by: the latter is in force.

Times of batches may be in front of them, and the number of a format behind them.
"""
STATEFUL = "state info ["
_NOT_FILLED_IN = " checkpoint = <unknown>"

_WATERMARK = re.compile(
    r"EventTimeWatermark (?:[0-9a-f-]{36}, )?(?P<attribute>(.+)#\d+)L?(?:-T\d+ms)?: [\w<>:,]+, (.+)", re.DOTALL
)  # Spark before 4.0 writes no UUID
_METRICS = re.compile(rf"CollectMetrics {TAP}([^,]+),")
_STATE = re.compile(r"state info \[ checkpoint = (.+?)/state, runId = ")
_OPERATOR_ID = re.compile(r"state info \[ .*?opId = (\d{1,9}),")
_MODE = re.compile(r", (Append|Update|Complete)\b")
_KEYS = re.compile(
    r"\w+ (?:List\((?P<listed>.*?)\), \d+, \[|\[(?P<keys>.*?)\], (?:session_window.*?, )?state info \[)", re.DOTALL
)
_KEY = re.compile(r"([^\[\],]+?#\d+)L?(-T\d+ms)?(?=,|$)")
_REAL_TIME = re.compile(r"RealTimeStreamScan\b.*\[batchDurationMs=(\d{1,12})ms\]", re.DOTALL)
_OPERATORS: tuple[tuple[str, OperatorKind], ...] = (
    ("StateStoreSave ", "aggregation"),
    ("StatefulStreamlineAggregate ", "aggregation"),  # in real-time mode
    ("SessionWindowStateStoreSave ", "session"),
    ("StreamingSymmetricHashJoin ", "join"),
    ("StreamingDeduplicateWithinWatermark ", "dedup_within_watermark"),
    ("StreamingDeduplicate ", "dedup"),
    ("StreamingGlobalLimit ", "limit"),
    ("FlatMapGroups", "map_groups_with_state"),
    ("TransformWithState", "transform_with_state"),
)
_MODE_FIRST = ("TransformWithState", "StatefulStreamlineAggregate ")
"""Operators that name their output mode before their state."""
_MODES: dict[str, OutputMode] = {"Append": "append", "Update": "update", "Complete": "complete"}
_DURATION = re.compile(r"(-?[0-9]{1,12}(?:\.[0-9]{1,9})?) (year|month|day|hour|minute|second)s?")
_UNIT_MS = {
    "second": 1000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "month": 31 * 86_400_000,  # Spark's own reckoning of a delay
    "year": 12 * 31 * 86_400_000,
}
_TEXT_LIMIT = 120
_REUSED = "ReusedExchange "
_KEEPS_ROWS = re.compile(
    r"Project\b|WholeStageCodegen\b|InputAdapter\b|CollectMetrics\b|Exchange\b|EventTimeWatermark\b|Union\b"
    r"|ColumnarToRow\b|(?:Batch|Arrow)EvalPython\b|Filter \(*isnotnull\([^()]+\)\)*(?: AND \(*isnotnull\([^()]+\)\)*)*$"
)
"""Nodes that pass on every row, except rows without a value in a column."""
_NUMBERED = re.compile(
    r"#\d+L?|(?<=plan_id=)\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|(?<=WholeStageCodegen) \(\d+\)"
)
"""Text that differs between two equivalent parts of a plan."""


def read_plan(lines: Iterable[Line]) -> PlanFacts:
    """The watermarks and stateful operators from top to bottom, each with what lies below it."""
    listed = list(_once((depth, text.lstrip("!")) for depth, text in lines))
    ends = [at for at, (depth, _) in enumerate(listed) if at + 1 == len(listed) or listed[at + 1][0] <= depth]
    leaves = [at for at in ends if not listed[at][1].startswith(_REUSED)]
    marks = {at: match for at, (_, text) in enumerate(listed) if (match := _WATERMARK.match(text))}
    places = {at: number for number, at in enumerate(marks)}
    operators: dict[int, OperatorKind] = {
        at: kind
        for at, (_, text) in enumerate(listed)
        for start, kind in _OPERATORS
        if text.startswith(start) and STATEFUL in text
    }
    nodes: list[PlannedWatermark] = []
    reads: dict[tuple[str, ...], int] = {}
    for at, match in marks.items():
        end = _end(listed, at)
        inner = [other for other in marks if at < other < end]
        drops = [other for other in range(at + 1, end) if other not in ends and not _KEEPS_ROWS.match(listed[other][1])]
        taps = {other: tap[1] for other in range(at + 1, end) if (tap := _METRICS.match(listed[other][1]))}
        hidden = {below for other in inner for below in range(other + 1, _end(listed, other))}
        first = reads.setdefault((match[2], *_way(listed[at + 1 : end])), places[at])
        nodes.append(
            PlannedWatermark(
                column=one_line(match[2], _TEXT_LIMIT),
                delay_ms=_duration_ms(match[3]),
                inputs=tuple(one_line(name, _TEXT_LIMIT) for other, name in taps.items() if other not in hidden),
                sources=tuple(number for number, leaf in enumerate(leaves) if at < leaf < end),
                above=tuple(places[other] for other in inner),
                after_state=any(at < other < end for other in operators),
                filtered=bool(drops),
                filtered_taps=bool(drops and taps and drops[0] < max(taps)),
                twin=first if first != places[at] else None,
                record_time=record_time(match["attribute"], [text for _, text in listed[at + 1 : end]]),
            )
        )
    planned = [
        _operator(listed[at][1], kind, listed, [places[mark] for mark in marks if at < mark < _end(listed, at)])
        for at, kind in operators.items()
    ]
    state = next((match[1] for _, text in listed if (match := _STATE.search(text))), None)
    place = None if state is None else one_line(re.sub("^file:/+", "/", state), 4096)
    real_time = next((int(match[1]) for leaf in leaves if (match := _REAL_TIME.match(listed[leaf][1]))), None)
    read = {source for node in nodes for source in node.sources}
    read_count = len(read) + len(ends) - len(leaves) if nodes else 0
    expands = (text for _, text in listed if text.startswith("Expand "))  # [[a copy], […], …], [its columns]
    copies = prod(text.count("], [") + sum(map(int, re.findall(r"(\d+) more field", text))) for text in expands)
    return PlanFacts(tuple(nodes), place, tuple(planned), len(leaves), read_count, copies, real_time_ms=real_time)


class _PlanNode(Struct, rename="camel"):
    simple_string: str = ""
    children: tuple["_PlanNode", ...] = ()


def lines_of_formatted(description: str) -> Iterator[Line]:
    """The nodes of a plan that Spark printed in two parts: a tree with numbers, then the details of each number."""
    tree, *details = description.removeprefix("== Physical Plan ==\n").split("\n\n")
    texts: dict[str, str] = {}
    for part in details:
        if number := _DETAILS.match(part.lstrip("\n")):
            lines = part.strip("\n").split("\n")[1:]
            found = {match[1]: match[2] for line in lines if (match := _DETAIL.match(line))}
            texts.setdefault(
                number[1], next((found[key] for key in ("Arguments", "Condition", "Output") if key in found), "")
            )
    for line in tree.split("\n"):
        if match := _NODE.fullmatch(line):
            text = f"{match['name']} {texts.get(match['number'], '')}".rstrip()
            # Spark 4.0 shows the plan before the batch fills in its output mode and watermarks.
            yield len(match["indent"]), text.partition(_NOT_FILLED_IN)[0]


def in_force_of(lines: Iterable[Line]) -> int | UnsetType:
    """The query's watermark (epoch ms) in force: that of the stateful operators with none below them; 0: at 1970.

    UNSET where the plan shows none, or several.
    """
    listed = list(lines)
    stateful = [at for at, (_, text) in enumerate(listed) if STATEFUL in text and "Restore" not in text]
    lowest: set[int | UnsetType] = set()
    for at in stateful:
        end = _end(listed, at)
        if not any(at < other < end for other in stateful):
            own = _IN_FORCE.search(listed[at][1])
            lowest.add(UNSET if own is None else int(own[1]))
    return lowest.pop() if len(lowest) == 1 else UNSET


def lines_of_json(plan: bytes | msgspec.Raw) -> Iterator[Line]:
    """The lines of a plan in an event log; UnreadableError for anything else."""
    waiting = [(0, decode_json(bytes(plan), _PlanNode))]
    while waiting:
        depth, node = waiting.pop()
        yield depth, node.simple_string
        waiting.extend((depth + 1, child) for child in reversed(node.children))


def lines_of_tree(tree: str) -> Iterator[Line]:
    """The lines of a plan printed as a tree (`+- *(1) Filter …`)."""
    for line in tree.splitlines():
        text = line.lstrip(" :+-~!")
        yield len(line) - len(text), re.sub(r"^\*\(\d+\) ", "", text)


def _once(lines: Iterable[Line]) -> Iterator[Line]:
    """The lines without those that an event log repeats below a reused part: Spark reads it at its first place."""
    reused: int | None = None
    for depth, text in lines:
        if reused is None or depth <= reused:
            reused = depth if text.startswith(_REUSED) else None
            yield depth, text


def _way(below: list[Line]) -> Iterator[str]:
    """The way of the rows from their source, in text that is the same for every equivalent way."""
    depth = below[0][0] if below else 0
    return (f"{at - depth} {_NUMBERED.sub('', text)}" for at, text in below)


def _end(listed: list[Line], at: int) -> int:
    """The end of the part of the plan below line `at`."""
    depth = listed[at][0]
    return next((other for other in range(at + 1, len(listed)) if listed[other][0] <= depth), len(listed))


def _operator(text: str, kind: OperatorKind, listed: list[Line], watermarks: list[int]) -> StatefulOperator:
    number = _OPERATOR_ID.search(text)
    _, _, rest = text.rpartition("state info [")
    mode_match = _MODE.search(text if text.startswith(_MODE_FIRST) else rest)
    mode = _MODES.get(mode_match[1]) if mode_match is not None else None
    match = _KEYS.match(text)
    keys = None if match is None else match["keys"] or match["listed"] or ""
    names = _KEY.findall(keys) if keys else []
    timed = any(suffix for _, suffix in names)
    cut = keys is None or "more field" in keys
    windowed = True if kind == "session" else None
    if kind == "aggregation":
        # Whether one of its keys is a time window: computed by a projection that rounds a time.
        made = [line for _, line in listed if "named_struct(start, " in line and "precisetimestampconversion(" in line]
        patterns = [rf"(?<![\w.]){re.escape(key.strip())}(?!\d)" for key, _ in names]
        windowed = any(re.search(pattern, line) for pattern in patterns for line in made)
    return StatefulOperator(
        operator=int(number[1]) if number else None,
        kind=kind,
        output_mode=mode,
        windowed=windowed,
        evicts=_evicts(kind, mode, text, timed=timed, cut=cut, watermark=bool(watermarks)),
        watermarks=watermarks,
    )


def _evicts(
    kind: OperatorKind, mode: OutputMode | None, text: str, *, timed: bool, cut: bool, watermark: bool
) -> bool | None:
    """Whether the watermark makes it remove state; None if the plan does not show it."""
    if kind in ("aggregation", "dedup"):
        if mode == "complete":
            return False
        return True if timed else None if cut else False
    if kind in ("session", "dedup_within_watermark"):
        return mode != "complete" and watermark
    if kind == "join":
        return text.rpartition("state cleanup [")[2].count(" predicate: ") == 2  # one for each input's rows
    return None


def _duration_ms(text: str) -> int:
    parts = ((Decimal(number), unit) for number, unit in _DURATION.findall(text))
    return int(sum(number * _UNIT_MS[unit] for number, unit in parts))
