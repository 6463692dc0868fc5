"""The channels that hold back the watermark of a Flink operator, step by step (semantics 11.2). Pure."""

from itertools import groupby
from operator import itemgetter

from ...snapshot import Blocker
from ...verdict.blockers import MAX_STEPS
from ...watermarks.times import MIN
from .barrel import Barrel, BarrelChannel

MAX_NAMED = 100


def blockers_of(barrel: Barrel) -> list[Blocker] | None:
    """The steps below the fastest input, the first holds back the watermark; None: not known.

    Empty: no input holds it back (the end of the stream, records in flight). A split counts with its subtask's
    watermark if that is greater: a watermark never goes back.
    """
    if barrel.ended:
        return []
    if barrel.held is None:
        return None
    if barrel.held.instance is None:
        return []
    groups = [
        (watermark, [one for _, _, one in members])
        for watermark, members in groupby(_aligned(barrel, barrel.held.channel), key=itemgetter(0))
    ]
    flushed = _flushed(barrel)
    steps: list[Blocker] = []
    for place, (watermark, members) in enumerate(groups[:MAX_STEPS]):
        freed = groups[place + 1][0] if place + 1 < len(groups) else flushed
        if freed is None or freed <= watermark:
            break
        level = barrel.watermark_ms
        steps.append(
            Blocker(
                channels=[one.name for one in members[:MAX_NAMED]],
                gain_ms=None if level is None else max(0, freed - level),
                watermark_ms=None if watermark == MIN else watermark,
                cause=members[0].cause or "behind",
                channel_count=len(members),
            )
        )
    return steps


def _aligned(barrel: Barrel, holder: str) -> list[tuple[int, bool, BarrelChannel]]:
    """The inputs in the minimum, the lowest first; of equal ones the holder first."""
    part = [
        (max(_or_min(one.watermark_ms), _or_min(barrel.instances[one.instance].watermark_ms)), one.name != holder, one)
        for one in barrel.channels
        if barrel.instances[one.instance].state == "active" and one.state in ("active", "never_seen")
    ]
    return sorted(part, key=lambda one: (one[0], one[1], _or_min(one[2].watermark_ms), one[2].name))


def _flushed(barrel: Barrel) -> int | None:
    """The watermark after all inputs in the minimum have turned idle; None while an active input has not caught up."""
    if any(one.state == "catching_up" for one in barrel.instances):
        return None
    return max((_or_min(one.watermark_ms) for one in barrel.channels if one.state != "finished"), default=None)


def _or_min(watermark: int | None) -> int:
    return MIN if watermark is None else watermark
