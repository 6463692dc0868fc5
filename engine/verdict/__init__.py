"""The verdict on a run (semantics 11): snapshot, verdict, blockers, applied now, recommendation, alerts.

What is named here is the stable surface of the judgement; `docs/architecture.md` lists it.
"""

from .applied_now import AppliedNow, applied_now
from .blockers import Staircase, staircase
from .judge import RecordedPast, SnapshotJudge, judge_monitor
from .recommendation import Advice, advice
from .snapshot_of import snapshot_of
from .verdict import Judge, VerdictInput, verdict_of

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
