"""What a Spark plan, as text, tells of a streaming query: its watermarks, its taps, its checkpoint."""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal

from .files import one_line
from .query_runs import PlanFacts, PlannedWatermark

TAP = "wmtop:"
"""How the names of `observe`s begin that are taps."""

Line = tuple[int, str]
"""How deep a node stands in the plan, and what it says."""

_WATERMARK = re.compile(r"EventTimeWatermark [0-9a-f-]{36}, (.+)#\d+L?(?:-T\d+ms)?: [\w<>:,]+, (.+)", re.DOTALL)
_METRICS = re.compile(rf"CollectMetrics {TAP}([^,]+),")
_STATE = re.compile(r"state info \[ checkpoint = (.+?)/state, runId = ")
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


def read_plan(lines: Iterable[Line]) -> PlanFacts:
    """The plan's nodes from top to bottom, each with the taps below it."""
    found: list[PlannedWatermark] = []
    above: list[tuple[int, int]] = []  # depth and number of the watermarks that the line stands below
    checkpoint: str | None = None
    for depth, text in lines:
        while above and depth <= above[-1][0]:
            above.pop()
        if watermark := _WATERMARK.match(text):
            node = PlannedWatermark(one_line(watermark[1], _TEXT_LIMIT), _duration_ms(watermark[2]))
            above.append((depth, len(found)))
            found.append(node)
        elif (metrics := _METRICS.match(text)) and above:
            node = found[above[-1][1]]
            found[above[-1][1]] = PlannedWatermark(
                node.column, node.delay_ms, (*node.inputs, one_line(metrics[1], _TEXT_LIMIT))
            )
        elif checkpoint is None and (state := _STATE.search(text)):
            checkpoint = _place(state[1])
    return PlanFacts(tuple(found), checkpoint)


def lines_of_tree(tree: str) -> Iterator[Line]:
    """The lines of a plan printed as a tree (`+- Filter …`)."""
    for line in tree.splitlines():
        text = line.lstrip(" :+-~")
        yield len(line) - len(text), text


def _duration_ms(text: str) -> int:
    parts = ((Decimal(number), unit) for number, unit in _DURATION.findall(text))
    return int(sum(number * _UNIT_MS[unit] for number, unit in parts))


def _place(uri: str) -> str:
    """A path where it is a file's URI."""
    return one_line(re.sub("^file:/+", "/", uri), 4096)
