"""What a driver's web server answers: SQL executions with their plans' metrics, and pages. Pure.

Pages are made for people: what is not exactly as expected there is not known.
"""

import html
import json
import re

from msgspec import Struct

from .facts import StateFacts, time_ms
from .files import Int64

_TOTAL, _DROPPED = "number of total state rows", "number of rows which are dropped by watermark"
_COUNT = re.compile("[0-9]{1,3}(?:[^0-9A-Za-z][0-9]{3})*|[0-9]{1,15}")
_GAPS = re.compile(r"drawTimeline\([\"']#watermark-gap-timeline[\"'], (v\d+),")
_ROW = re.compile(r"<tr[^>]*>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
_RUN = re.compile(r"/StreamingQuery/statistics/?\?id=([0-9a-f-]{36})\"")
_TAG = re.compile("<[^>]*>")
_STATUSES = ("RUNNING", "FINISHED", "FAILED")


class ListedRun(Struct, frozen=True):
    """A run on the page that lists all queries; `batch` is its last one that ended, `why` the reason of a failure."""

    id: str
    name: str | None
    status: str
    batch: int | None
    why: str = ""


class SqlMetric(Struct):
    """A metric of a node, as Spark prints it."""

    name: str
    value: str = ""


class SqlNode(Struct, rename="camel"):
    """A node of an execution's plan."""

    node_id: int = 0
    node_name: str = ""
    metrics: list[SqlMetric] = []


class Execution(Struct, rename="camel"):
    """A SQL execution; `duration` in ms."""

    id: Int64
    status: str = ""
    description: str = ""
    submission_time: str = ""
    duration: Int64 = 0
    root_execution_id: Int64 | None = None
    plan_description: str = ""
    error_message: str = ""
    nodes: list[SqlNode] = []
    modified_configs: dict[str, str] | None = None

    @property
    def began_ms(self) -> int | None:
        """When it began (epoch ms)."""
        return time_ms(self.submission_time.replace("GMT", "+00:00"))


def states_in(execution: Execution) -> tuple[StateFacts, ...] | None:
    """The stateful operators of its plan, with what its tasks counted; None: a number in it is not known."""
    nodes = sorted(execution.nodes, key=lambda node: node.node_id)
    values = [{metric.name: metric.value for metric in node.metrics} for node in nodes]
    # An operator names itself otherwise in a query's own reports: `dedupe`, `dedupeWithinWatermark`.
    names = [node.node_name.replace("StreamingDeduplicate", "dedupe") for node in nodes]
    rows = [(name, count_in(one[_TOTAL])) for name, one in zip(names, values, strict=True) if _TOTAL in one]
    lost = [count_in(one[_DROPPED]) for one in values if _DROPPED in one]
    if not rows:
        return ()
    if None in lost:
        return None
    # Sessions count late rows in another node than their state's rows.
    known = [dropped or 0 for dropped in lost]
    by_operator = known if len(lost) == len(rows) else [sum(known), *[0] * (len(rows) - 1)]
    return tuple(
        StateFacts(name, -1 if kept is None else kept, None, dropped)
        for (name, kept), dropped in zip(rows, by_operator, strict=True)
    )


def watermarks_in(page: str) -> list[tuple[int, int]]:
    """From a query's statistics page: when each of its last triggers started, and the watermark in force then (epoch
    ms); empty where the page is not as expected.
    """
    try:
        [name] = set(_GAPS.findall(page))
        [points] = map(json.loads, re.findall(rf"\bvar {name} = (\[[^\]]*\]);", page))
        return [(int(point["x"]), round(point["x"] - 1000 * point["y"])) for point in points]
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        return []


def statuses_in(page: str) -> dict[str, ListedRun] | None:
    """From the page of all streaming queries: each run, as listed; None where it is not as expected."""
    if "Streaming Queries (" not in page:
        return None
    found: dict[str, ListedRun] = {}
    for row in _ROW.findall(page):
        runs, cells = _RUN.findall(row), [html.unescape(_TAG.sub(" ", cell)).strip() for cell in _CELL.findall(row)]
        if not runs:
            continue
        if len(set(runs)) != 1 or len(cells) < 4 or cells[1] not in _STATUSES or runs[0] not in cells[3]:
            return None
        name, batch = None if cells[0] == "<no name>" else cells[0], count_in(cells[8]) if len(cells) > 8 else None
        why = cells[-1].partition("+details")[2].strip() or cells[-1] if cells[1] == "FAILED" else ""
        found[runs[0]] = ListedRun(cells[2], name, cells[1], batch, why)
    return found


def count_in(text: str) -> int | None:
    """A number as Spark prints it, with a separator of thousands; None for anything else."""
    return int("".join(filter(str.isdigit, text))) if _COUNT.fullmatch(text) else None
