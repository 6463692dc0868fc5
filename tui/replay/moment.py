"""Parses a typed time to go to: in the screen's form, as ISO 8601, or relative to the present position. Pure."""

import re
from datetime import datetime, tzinfo

from ..present.formatting import at, parse_duration

HOW = "a time is written like 14:30, 14:30:05, 02-08 14:30, 2013-02-08T14:30Z, +10m or -1h"
_SHORT_DATE = re.compile(r"\d\d-\d\d")


def parse_moment(text: str, now_ms: int, zone: tzinfo | None) -> int:
    """The time (epoch ms), read in `zone` (None: local) at `now_ms`; ValueError with one line."""
    text = text.strip()
    if text[:1] in ("+", "-", "−"):
        length = parse_duration(text[1:])
        return now_ms + (length if text[0] == "+" else -length)
    if re.fullmatch(r"\d{9,}", text):
        return int(text)
    here = at(now_ms, zone)
    if re.fullmatch(r"\d\d?:\d\d(:\d\d(\.\d+)?)?", text):
        text = f"{here.date().isoformat()} {'0' * (text[1] == ':')}{text}"
    elif _SHORT_DATE.match(text) and not re.match(r"\d{4}", text):
        text = f"{here.year}-{text}"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(HOW) from None
    if moment.tzinfo is None and zone is not None:
        moment = moment.replace(tzinfo=zone)
    return int(moment.timestamp() * 1000 // 1)
