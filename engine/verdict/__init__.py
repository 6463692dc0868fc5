"""The verdict on a run (semantics 11): snapshot, verdict, blockers, applied now, recommendation, alerts.

What is named here is the stable surface of the judgement; `docs/architecture.md` lists it.
Nothing is imported before one of the names is used: the start screen needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..snapshot.recommendation import Advice, advice
    from ..watermarks.operator_clock import Staircase, staircase
    from .evidence import Evidence
    from .monitor_snapshot import snapshot_of
    from .preview import AppliedNow, applied_now
    from .target_history import RecordedPast
    from .verdict import judged, verdict_of

__all__ = [
    "Advice",
    "AppliedNow",
    "Evidence",
    "RecordedPast",
    "Staircase",
    "advice",
    "applied_now",
    "judged",
    "snapshot_of",
    "staircase",
    "verdict_of",
]

_MODULES = (".preview", "..snapshot.recommendation", ".monitor_snapshot", ".target_history", ".verdict")


def __getattr__(name: str) -> Any:
    for module in _MODULES if name in __all__ else ():
        if (value := getattr(import_module(module, __name__), name, None)) is not None:
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
