"""The verdict on a run (semantics 11): snapshot, verdict, blockers, applied now, recommendation, alerts.

What is named here is the stable surface of the judgement; `docs/architecture.md` lists it.
A module is imported when one of its names is first used: the start screen needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .blockers import Staircase, staircase
    from .monitor_snapshot import snapshot_of
    from .preview import AppliedNow, applied_now
    from .recommendation import Advice, advice
    from .verdict import Judge, RecordedPast, SnapshotJudge, VerdictInput, judge_monitor, verdict_of

__all__ = [
    "Advice",
    "AppliedNow",
    "Judge",
    "RecordedPast",
    "SnapshotJudge",
    "Staircase",
    "VerdictInput",
    "advice",
    "applied_now",
    "judge_monitor",
    "snapshot_of",
    "staircase",
    "verdict_of",
]

_MODULES = {
    "preview": ("AppliedNow", "applied_now"),
    "blockers": ("Staircase", "staircase"),
    "recommendation": ("Advice", "advice"),
    "monitor_snapshot": ("snapshot_of",),
    "verdict": ("Judge", "RecordedPast", "SnapshotJudge", "VerdictInput", "judge_monitor", "verdict_of"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
