"""Times of mixed values with `--time-unit auto`, in plain Python: it shares no code with what it judges."""

import datetime as dt
import math
import random
import re
from fractions import Fraction
from typing import Any

FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
BOUNDS = (10**11, 10**14, 10**17)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_FLOAT = re.compile(r"-?[0-9]+(\.[0-9]+([eE][+-]?[0-9]{1,2})?|[eE][+-]?[0-9]{1,2})")
_EDGES = [sign * (bound + step) for bound in BOUNDS for step in (-1, 0, 1) for sign in (1, -1)]
_EDGES += [0, 1, -1, 2**63 - 1, 1 - 2**63, 253_402_300_800, 10**18]
_GARBAGE = ["never", "", " ", "nan", "inf", "0x10", "1_000", "2021-02-30", "12:00", "+5", "1.", "--1", "1e400", "1,5",
            "99999999999999999999", "2021-01-01T10:00:00+19:00", "-9223372036854775808",
            "9223372036854775808"]  # fmt: skip


def time_of(value: Any) -> int | None:
    """The time (ms) of a value of any type; None: it is malformed."""
    if isinstance(value, str):
        return _of_text(value.strip(" "))
    if isinstance(value, float):
        return _of_float(value)
    return None if value is None or isinstance(value, bool | list | dict) else _of_number(value)


def some(r: random.Random) -> int | float | str | None:
    """A number, a text or nothing, usable or not."""
    kind = r.randrange(10)
    if kind < 3:
        return whole(r)
    if kind == 3:
        return whole(r) / r.choice((1, 10, 1_000))
    if kind == 4:
        return str(whole(r))
    if kind == 5:
        return f"{float(whole(r)):.3f}" if r.random() < 0.5 else f"{float(whole(r)):.6e}"
    return _iso(r) if kind < 8 else None if kind == 8 else r.choice(_GARBAGE)


def whole(r: random.Random) -> int:
    """A whole number of any unit: negative, zero, and at the bounds."""
    if r.random() < 0.1:
        return r.choice(_EDGES)
    unit = r.choice((1, 10**3, 10**6, 10**9))
    return r.randrange(-(10**9), 4 * 10**9) * unit + r.randrange(unit)


def _per_second(number: Any) -> int:
    return 1_000 ** sum(abs(number) >= bound for bound in BOUNDS)


def _of_number(number: Any) -> int | None:
    return _usable(math.floor(Fraction(number) * 1_000 / _per_second(number))) if abs(number) < 2**63 else None


def _of_float(number: float) -> int | None:
    if not abs(number) < 1e22:
        return None
    rate = _per_second(number)
    micros = number * (10**6 // rate) if rate <= 10**6 else number / 1_000
    return _usable(round(micros) // 1_000)


def _of_text(text: str) -> int | None:
    if re.fullmatch(r"-?[0-9]{1,19}", text):
        return _of_number(int(text))
    if _FLOAT.fullmatch(text):
        return _of_float(float(text))
    found = _ISO.fullmatch(text)
    if found is None:
        return None
    *moment, fraction, zone = found.groups()
    try:
        time = dt.datetime(*[int(part or 0) for part in moment], tzinfo=dt.UTC)  # pyright: ignore
    except ValueError:
        return None
    digits = "" if zone in (None, "Z") else zone[1:].replace(":", "").ljust(4, "0")
    minutes = int(digits[:2] or 0) * 60 + int(digits[2:] or 0)
    if minutes > 18 * 60:
        return None
    ahead = minutes if zone and zone[0] == "+" else -minutes
    since = (time - _EPOCH) // dt.timedelta(milliseconds=1) - ahead * 60_000
    return _usable(since + int(((fraction or "") + "000")[:3]))


def _usable(ms: int) -> int | None:
    return ms if FIRST_MS <= ms <= LAST_MS else None


def _iso(r: random.Random) -> str:
    text = f"{r.randrange(1, 9_999):04}-{r.randrange(1, 13):02}-{r.randrange(1, 29):02}"
    if r.random() < 0.2:
        return text
    text += f"{r.choice('T ')}{r.randrange(24):02}:{r.randrange(60):02}"
    if r.random() < 0.8:
        text += f":{r.randrange(60):02}" + (f".{r.randrange(10**6)}" if r.random() < 0.5 else "")
    return text + r.choice(("", "Z", "+02:00", "-0530", "+14", "-18:00"))
