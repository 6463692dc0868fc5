"""What two looks at a target tell, one after the other: since when a value is unchanged and a holder holds.

All times are epoch ms of the looks. A look sees a state, not when it began: what was already so at the first one is
older by an unknown time.
"""

from typing import TypeVar

from msgspec.structs import replace

from .watermark import Holder

T = TypeVar("T")


def changed_ms(
    value: T, before: tuple[T, int | None] | None, now_ms: int, *, first_ms: int | None = None
) -> int | None:
    """When a value changed, as far as it was seen; None: it was not, so it is unchanged for at least as long as known.

    `before` is the value of the look before and when that had changed; None: there was none. `first_ms` is the answer
    then.

    >>> changed_ms(20, None, 100), changed_ms(20, (20, None), 200), changed_ms(30, (20, None), 300)
    (None, None, 300)
    """
    if before is None:
        return first_ms
    was, was_changed_ms = before
    return was_changed_ms if was == value else now_ms


def held_since(
    holder: Holder, before: Holder | None, now_ms: int, *, was_watched: bool, of_cause: bool = False
) -> Holder:
    """The holder with the time since which it holds: that of the look before if it held then, else now.

    `was_watched`: the look before would have shown a holder, so that one of which it shows none begins now; else it
    may have held for longer (`at_least`). `of_cause`: with another cause a holder begins again.

    >>> first = held_since(Holder("a", 0, "behind"), None, 100, was_watched=False)
    >>> second = held_since(Holder("a", 0, "quiet"), first, 200, was_watched=True)
    >>> second.since_ms, second.cause, second.at_least
    (100, 'quiet', True)
    """
    is_same = before is not None and before.channel == holder.channel
    if before is not None and is_same and (before.cause == holder.cause or not of_cause):
        return replace(holder, since_ms=before.since_ms, at_least=before.at_least)
    return replace(holder, since_ms=now_ms, at_least=before is None and not was_watched)
