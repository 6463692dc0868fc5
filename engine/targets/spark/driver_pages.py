"""The pages of a driver's web server. They are made for people: what is not exactly as expected is not known."""

import html
import json
import re

from msgspec import Struct

_COUNT = re.compile("[0-9]{1,3}(?:[^0-9A-Za-z][0-9]{3})*|[0-9]{1,15}")
_GAPS = re.compile(r"drawTimeline\([\"']#watermark-gap-timeline[\"'], (v\d+),")
_ROW = re.compile(r"<tr[^>]*>(.*?)</tr>", re.DOTALL)
_CELL = re.compile(r"<td[^>]*>(.*?)</td>", re.DOTALL)
_RUN = re.compile(r"/StreamingQuery/statistics/?\?id=([0-9a-f-]{36})\"")
_TAG = re.compile("<[^>]*>")
ENDED = {"RUNNING": False, "FINISHED": True, "FAILED": True}
"""Whether a run has ended, by its status on the page."""


class ListedRun(Struct, frozen=True):
    """A run on the page that lists all queries; `batch` is its last one that ended, `why` the reason of a failure."""

    id: str
    name: str | None
    status: str
    batch: int | None
    why: str = ""


def watermarks_in(page: str) -> list[tuple[int, int]]:
    """From a query's statistics page: when each of its last triggers started, and the watermark in force then (epoch
    ms); empty where the page is not as expected.
    """
    names = set(_GAPS.findall(page))
    if len(names) != 1:
        return []
    values = re.findall(rf"\bvar {names.pop()} = (\[[^\]]*\]);", page)
    try:
        [points] = [json.loads(value) for value in values]
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
        if len(set(runs)) != 1 or len(cells) < 4 or cells[1] not in ENDED or runs[0] not in cells[3]:
            return None
        name, batch = None if cells[0] == "<no name>" else cells[0], count_in(cells[8]) if len(cells) > 8 else None
        why = cells[-1].partition("+details")[2].strip() or cells[-1] if cells[1] == "FAILED" else ""
        found[runs[0]] = ListedRun(cells[2], name, cells[1], batch, why)
    return found


def count_in(text: str) -> int | None:
    """A number as Spark prints it, with a separator of thousands; None for anything else."""
    return int("".join(filter(str.isdigit, text))) if _COUNT.fullmatch(text) else None
