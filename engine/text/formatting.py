"""Formats numbers (durations, times, rates, shares), and cleans text from outside. Pure."""

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

from rich.cells import cell_len, set_cell_size

from ..system import errors
from ..watermarks.observation import MalformedRecord

DURATION_HOW = "a duration is written like 250ms, 45s, 30m, 1h30m, 2d"
MOMENT_HOW = "a time is written like 14:30, 14:30:05, 02-08 14:30, 2013-02-08T14:30Z, +10m or -1h"
NO_DATA = "no data yet"
UNKNOWN = "–"
ELSEWHERE = "not known from here"
"""The words for a part of an attached query that no tap reports."""
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000
CLOSE = 10 * SECOND
"""Milliseconds of times are shown only within this distance (ms)."""
FINE = 5 * MINUTE
"""An axis with steps below this needs seconds."""
MONTH, YEAR = 30 * DAY, 365 * DAY
"""Steps (ms) from which a label names the month or the year."""

_UNITS = {"ms": 1, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_NUMBER = re.compile(r" (#\d+)$")
_SHORT_DATE = re.compile(r"\d\d-\d\d")
_DURATION = re.compile(r"(?:\d{1,18}(?:ms|s|m|h|d))+")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_NAME = 4_096
NAME_CELLS = 24
"""Cells of a name in a sentence, at most."""


def duration(ms: float | None) -> str:
    """A measured duration (ms), two units at most: `250ms`, `2.4s`, `4m05s`, `26m`, `1h05m`, `12.8y`; None is `–`."""
    if ms is None:
        return UNKNOWN
    if ms < 0:
        return "−" + duration(-ms)
    if ms < SECOND:
        return f"{int(ms)}ms" if ms >= 1 else "0s"
    ms += 1  # a watermark is 1 ms below a full time: what is shown of 24m59.999s is 25m
    if ms < 10 * SECOND:
        return f"{int(ms) // 100 / 10:g}s"
    if ms < MINUTE:
        return f"{int(ms) // SECOND}s"
    if ms >= 2 * YEAR:  # old data
        return f"{ms / YEAR:,.1f}y"
    small, large, names = (
        (SECOND, MINUTE, "ms") if ms < 10 * MINUTE
        else (MINUTE, HOUR, "hm") if ms < DAY
        else (HOUR, DAY, "dh")
    )  # fmt: skip
    whole, rest = divmod(int(ms), large)
    if not whole:
        return f"{rest // small}{names[1]}"
    if ms >= 10 * DAY or not rest // small:
        return f"{whole:,}{names[0]}"
    return f"{whole}{names[0]}{rest // small:02d}{names[1]}"


def signed(ms: float | None) -> str:
    """A distance (ms) with its sign: `+43m`, `−3h05m`, `+0s`; None is `–`."""
    return duration(ms) if ms is None or ms < 0 else "+" + duration(ms)


def short(ms: float) -> str:
    """A duration (ms, >= 0) in at most three cells where that is possible: `3d`, `26m`, `2y`."""
    for unit, name in ((365 * DAY, "y"), (DAY, "d"), (HOUR, "h"), (MINUTE, "m"), (SECOND, "s")):
        if ms >= unit:
            return f"{int(ms // unit)}{name}"
    return "0s"


def setting(ms: int | None) -> str:
    """A configured duration (ms), exact and as it would be typed: `1h30m`, `1s500ms`, `0s`; None is `off`."""
    if ms is None:
        return "off"
    parts: list[str] = []
    for name, unit in reversed(_UNITS.items()):
        whole, ms = divmod(ms, unit)
        if whole:
            parts.append(f"{whole}{name}")
    return "".join(parts) or "0s"


def parse_duration(text: str) -> int:
    """A typed duration (`45m`, `1h30m`, `0`) in ms; `ValueError` with one line for the user."""
    text = text.strip().replace(" ", "")
    if text == "0":
        return 0
    if not _DURATION.fullmatch(text):
        raise ValueError(DURATION_HOW)
    total = sum(int(n) * _UNITS[unit] for n, unit in re.findall(r"(\d+)(ms|s|m|h|d)", text))
    if total > 36_500 * DAY:
        raise ValueError("longer than a hundred years")
    return total


def parse_moment(text: str, now_ms: int, zone: tzinfo | None, within: tuple[int, int] | None = None) -> int:
    """A typed time (epoch ms), read in `zone` (None: local) at `now_ms`; ValueError with one line.

    A time of day is that of the same day, or of the day before or after if only that is `within` (first and last ms).
    """
    text = text.strip()
    if text[:1] in ("+", "-", "−"):
        length = parse_duration(text[1:])
        return now_ms + (length if text[0] == "+" else -length)
    if re.fullmatch(r"\d{9,18}", text):
        return int(text)
    here = at(now_ms, zone)
    of_day = re.fullmatch(r"\d\d?:\d\d(:\d\d(\.\d+)?)?", text) is not None
    if of_day:
        text = f"{here.date().isoformat()} {'0' * (text[1] == ':')}{text}"
    elif _SHORT_DATE.match(text) and not re.match(r"\d{4}", text):
        text = f"{here.year}-{text}"
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None and zone is not None:
            moment = moment.replace(tzinfo=zone)
        days = [moment + timedelta(days=by) for by in (0, -1, 1)] if of_day and within else [moment]
        times = [int(day.timestamp() * 1000 // 1) for day in days]
    except (ValueError, OverflowError):
        raise ValueError(MOMENT_HOW) from None
    return next((time for time in times if within and within[0] <= time <= within[1]), times[0])


def at(ms: int, zone: tzinfo | None) -> datetime:
    """The moment `ms` (epoch ms) in `zone`; None is the local zone."""
    try:
        return (_EPOCH + timedelta(milliseconds=ms)).astimezone(zone)
    except (OverflowError, ValueError, OSError):
        edge = datetime.max if ms > 0 else datetime.min
        return edge.replace(tzinfo=UTC)


def clock(ms: int, zone: tzinfo | None, near_ms: int | None = None) -> str:
    """A time of day, `13:47:59`, with its date if that differs from `near_ms`'s.

    Milliseconds are shown only within ten seconds of `near_ms`.
    """
    moment = at(ms, zone)
    if near_ms is None:
        return moment.time().isoformat("seconds")
    text = moment.time().isoformat("milliseconds" if abs(ms - near_ms) < CLOSE else "seconds")
    near = at(near_ms, zone)
    if moment.date() == near.date():
        return text
    return f"{moment.date().isoformat()[0 if moment.year != near.year else 5 :]} {text}"


def near(ms: int, zone: tzinfo | None, near_ms: int | None) -> str:
    """`clock` in at most twelve cells: on another day than `near_ms` `02-04 13:47`, in another year its date."""
    moment = at(ms, zone)
    if near_ms is None or moment.date() == (reference := at(near_ms, zone)).date():
        return clock(ms, zone, near_ms)
    if moment.year == reference.year:
        return f"{moment.month:02d}-{moment.day:02d} {moment.time().isoformat('minutes')}"
    return moment.date().isoformat()


def second(ms: int, zone: tzinfo | None) -> str:
    """A time of day to the second: `13:47:59`."""
    return at(ms, zone).time().isoformat("seconds")


def stamp(ms: int, zone: tzinfo | None) -> str:
    """A complete time: `2013-02-08 14:32:10 UTC`."""
    moment = at(ms, zone)
    return f"{moment.date().isoformat()} {moment.time().isoformat('seconds')} {moment.tzname()}"


def brief(ms: int, zone: tzinfo | None, step_ms: int) -> str:
    """A time as precise as steps of `step_ms` need: `2013`, `2013-02`, `02-08`, `14:30`, `14:30:05` or `05.250`."""
    moment = at(ms, zone)
    if step_ms >= MONTH:  # with such steps an axis goes over the end of a year
        return f"{moment.year:04d}" if step_ms >= YEAR else f"{moment.year:04d}-{moment.month:02d}"
    if step_ms >= DAY or (step_ms >= FINE and not (moment.hour or moment.minute or moment.second)):
        return f"{moment.month:02d}-{moment.day:02d}"
    if step_ms >= FINE:
        return moment.time().isoformat("minutes")
    if step_ms >= SECOND:
        return moment.time().isoformat("seconds")
    return moment.time().isoformat("milliseconds")[6:]


def axis_times(times: Sequence[int], zone: tzinfo | None, step_ms: int) -> list[str]:
    """The labels of an axis with steps of `step_ms`, in at most 8 cells: as `brief`.

    Where an axis by days goes over the end of a year, the first time of each year is shown as `2028-01`.
    """
    texts = [brief(time, zone, step_ms) for time in times]
    moments = [at(time, zone) for time in times]
    if not DAY <= step_ms < MONTH or len({moment.year for moment in moments}) < 2:
        return texts
    before = None
    for place, moment in enumerate(moments):
        if moment.year != before:
            texts[place], before = f"{moment.year:04d}-{moment.month:02d}", moment.year
    return texts


def interval(start_ms: int, end_ms: int, zone: tzinfo | None, near_ms: int | None = None) -> str:
    """A window's ends, as short as possible: `13:00–14:00`, `13:00:05–13:00:10`, `02-08 13:00–14:00`; with its year
    where that is not `near_ms`'s.
    """
    start, end, last = at(start_ms, zone), at(end_ms, zone), at(end_ms - 1, zone)
    near = start if near_ms is None else at(near_ms, zone)
    fine = next((unit for unit in (MINUTE, SECOND) if not start_ms % unit and not end_ms % unit), 1)
    spec = {MINUTE: "minutes", SECOND: "seconds", 1: "milliseconds"}[fine]
    date = start.date().isoformat()[0 if start.year != near.year else 5 :]
    if not (start_ms % DAY or end_ms % DAY or start.hour or start.minute):
        return date if last.date() == start.date() else f"{date}–{last.month:02d}-{last.day:02d}"
    date = "" if start.date() == near.date() else f"{date} "
    until = "" if last.date() == start.date() else f"{end.month:02d}-{end.day:02d} "
    return f"{date}{start.time().isoformat(spec)}–{until}{end.time().isoformat(spec)}"


def count(number: int | None) -> str:
    """A count: `1,204`, `12.3M`, `4.5G`; None is `–`."""
    if number is None:
        return UNKNOWN
    for unit, name in ((10**9, "G"), (10**6, "M")):
        if number >= 10 * unit:
            return f"{number / unit:.1f}{name}"
    return f"{number:,}"


def behind_clock(ms: int) -> str:
    """How far the watermark is behind the clock, or ahead of it: `47s behind the clock`."""
    return f"{duration(abs(ms))} {'behind' if ms >= 0 else 'ahead of'} the clock"


def at_least(number: int) -> str:
    """A lower bound, `≥ 17`; for zero: `0`, since then nothing was dropped."""
    return f"≥ {count(number)}" if number else "0"


def rate(per_second: float | None) -> str:
    """Records per second: `0.4`, `812`, `5,402`, `1.2M`; None is `–`."""
    if per_second is None:
        return UNKNOWN
    if per_second < 9.95:
        return f"{per_second:.1f}"
    if per_second < 1_000_000:
        return f"{per_second:,.0f}"
    return f"{per_second / 1_000_000:.1f}M"


def share(part: float | None) -> str:
    """A share of one in per cent: `1.8 %`, `<0.01 %`, `0 %`; never rounded to none or to all; None is `–`."""
    if part is None:
        return UNKNOWN
    if part <= 0 or part >= 1:
        return "0 %" if part <= 0 else "100 %"
    percent = part * 100
    if percent < 0.01:
        return "<0.01 %"
    return f"{percent:.2f} %" if percent < 0.1 else f"{min(percent, 99.9):.1f} %"


def ratio(part: int | None, whole: int | None) -> float | None:
    """`part` of `whole`; None if `whole` is 0 or one of them is not known."""
    return None if part is None or not whole else part / whole


def share_of(part: int | None, whole: int | None) -> str:
    """`part` of `whole` in per cent; `–` if `whole` is 0 or one of them is not known."""
    return share(ratio(part, whole))


def span(low: str, high: str) -> str:
    """A range of two formatted values, the unit once: `2.1–2.3 %`, `12–15m`; one value where they read the same."""
    if low == high:
        return low
    number, _, unit = high.partition(" ")
    if unit and low.endswith(" " + unit):
        return f"{low.removesuffix(' ' + unit)}–{number} {unit}"
    return f"{low}–{high}"


_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def escaped(text: str) -> str:
    """Text for a file that other programs read: what a terminal obeys, or UTF-8 or XML cannot have, is as in JSON."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


@lru_cache(maxsize=32_768)
def clean(text: str) -> str:
    """Text from outside on one line; control characters are shown, so that no terminal obeys them."""
    out: list[str] = []
    marks = 0
    for char in text[:_MAX_NAME]:
        kind = unicodedata.category(char)
        marks = marks + 1 if kind in ("Mn", "Me") else 0
        if "\ufe00" <= char <= "\ufe0f" or marks > 1:
            continue
        if char < " ":
            out.append(chr(0x2400 + ord(char)))
        elif char == "\x7f":
            out.append("␡")
        elif kind in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"):
            out.append("\ufffd")
        else:
            out.append(" " if kind == "Zs" else char)
    return "".join(out)


def cut(text: str, cells: int) -> str:
    """`text` in at most `cells` cells, `…` where something is missing."""
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, cells - 1).rstrip() + "…" if cells > 0 else ""


def cut_middle(text: str, cells: int) -> str:
    """`text` in at most `cells` cells, shortened in the middle: names tend to differ at the end."""
    if cell_len(text) <= cells:
        return text
    if cells < 5:
        return cut(text, cells)
    tail = text[-1:]
    while cell_len(text[-len(tail) - 1 :]) <= (cells - 1) * 2 // 3 and len(tail) < len(text):
        tail = text[-len(tail) - 1 :]
    return set_cell_size(text, cells - 1 - cell_len(tail)).rstrip() + "…" + tail


def label(name: str, cells: int = 64) -> str:
    """A name from outside, cleaned, in at most `cells` cells, and never empty.

    Of a chain of operators that is too long the first one stays, and a number at the end: `Source: rates…#0`.
    """
    text = clean(name)
    first, chained, _ = text.partition(" -> ")
    if chained and cell_len(text) > cells:
        number = _NUMBER.search(text)
        tail = f"…{number[1] if number else ''}"
        room = cells - cell_len(tail)
        first = first if cell_len(first) <= room else first.removeprefix("Source: ")
        text = set_cell_size(first, min(room, cell_len(first))) + tail if room > 0 else text
    return cut_middle(text, cells) or "(no name)"


def name(text: str) -> str:
    """A name from outside, cleaned and short enough for a sentence."""
    return label(text, NAME_CELLS)


def counted(number: int | None, thing: str) -> str:
    """`1 window`, `1,204 records`; without a number `– records`."""
    return f"{count(number)} {thing}{'' if number == 1 else 's'}"


def malformed(record: MalformedRecord) -> str:
    """Where a record without a usable event time is, and why it has none."""
    value = cut(clean(f'"{record.value}"'), NAME_CELLS)
    why = {
        "missing": f"no {clean(record.column)}",
        "not_json": f"{value} is not JSON",
        "no_time": f"{clean(record.column)} {value} is not a time",
        "out_of_range": f"{clean(record.column)} {value} is not within the years 1 to 9999",
        "not_utf8": f"{value} is not UTF-8",
        "too_deep": f"{value} is nested too deep",
        "too_long": f"{value} is longer than 16 MiB",
        "open_quote": f"{value} has a quote that is not closed",
        "damaged": f"the file is damaged: {clean(record.value or '')}",
    }
    return f"{label(record.channel)}, {clean(record.where)}: {why[record.why]}"


def pad(text: str, cells: int, right: bool = False) -> str:
    """`text` in exactly `cells` cells, cut or filled; `right` puts it at the right end."""
    text = cut(text, cells)
    fill = " " * (cells - cell_len(text))
    return fill + text if right else text + fill


def horizon_words(horizon_ms: int | None) -> str:
    """`last 15m`, `since the start`."""
    return "since the start" if horizon_ms is None else f"last {horizon_name(horizon_ms)}"


def horizon_name(horizon_ms: int) -> str:
    """`15m`, `24h`."""
    return "24h" if horizon_ms == DAY else setting(horizon_ms)


def sentence(text: str) -> str:
    """The text with a capital first letter."""
    return text[:1].upper() + text[1:]


def first_line(text: str) -> str:
    """The first line of `text` that is not blank, cleaned for a terminal."""
    return clean(errors.first_line(text))
