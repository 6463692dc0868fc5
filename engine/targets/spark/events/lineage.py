"""Traces, through the plan, where in a Kafka record the event time of a watermark is; unclear cases are not guessed."""

import re
from collections.abc import Sequence

RECORD = "timestamp"
"""The record's own timestamp; every other place is a JSON path into its value: `$.a.b`."""

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
            return _of_leaf(wanted, path, leaf["columns"].split(", "))
        if text.startswith("Project ["):
            found = _defined(wanted, text)
            if found is None:
                return None
            simple = _simplified(found, path)
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
        if not path and (cast := next((match for one in _CASTS if (match := one.fullmatch(expression))), None)):
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


def _of_leaf(attribute: str, path: str, columns: Sequence[str]) -> str | None:
    """The place, if the attribute is a column of Kafka's source."""
    if attribute not in columns:
        return None
    name = attribute.partition("#")[0]
    if name == "timestamp" and not path:
        return RECORD
    return path if name == "value" and path else None
