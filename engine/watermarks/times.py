"""Event-time arithmetic in integer milliseconds since the epoch, with the two sentinels of Flink."""

from typing import Final

MIN: Final = -(2**63)
"""No watermark yet."""
MAX: Final = 2**63 - 1
"""End of stream."""

FIRST_USABLE_MS: Final = -62_135_596_800_000
"""0001-01-01T00:00:00Z: an event time before it is malformed."""
LAST_USABLE_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z: an event time after it is malformed."""


def saturate(value: int) -> int:
    """`value` (ms) limited to the signed 64-bit range."""
    return MIN if value < MIN else MAX if value > MAX else value


def shift_all(times: dict[int, int], delta: int) -> dict[int, int]:
    """Every time plus `delta` (ms), as `shift` adds it; plain addition where no time is near either end of time."""
    if not delta:
        return times
    if min(times.values(), default=0) >= FIRST_USABLE_MS and -LAST_USABLE_MS <= delta <= 0:
        return {number: time + delta for number, time in times.items()}
    return {number: shift(time, delta) for number, time in times.items()}


def shift(time: int, delta: int) -> int:
    """`time` plus `delta` (ms), saturating; `MIN` stays `MIN`."""
    return MIN if time == MIN else saturate(time + delta)
