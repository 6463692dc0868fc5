"""Findings in words, each told by the function that knows its kind. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct

from ...engine.core.doctor import Finding, Harm, diagnose
from ...engine.core.history import HistoryPoint
from ...engine.core.snapshot import Snapshot
from ..screens.picture import Wish
from . import channels, clocks, costs
from .words import At

HARMS: dict[Harm, tuple[str, str]] = {
    "stops": ("STOPS", "bad"),
    "loses": ("LOSES", "bad"),
    "delays": ("DELAYS", "stale"),
    "burdens": ("COSTS", "strong"),
}
"""The word and the ink for each harm."""
_TELLERS = {**channels.TELLERS, **clocks.TELLERS, **costs.TELLERS}


class Diagnosis(Struct, frozen=True):
    """A finding in words; `wish` is a setting of the remedy that can be previewed."""

    key: str
    harm: Harm
    title: str
    cost: str
    evidence: Sequence[str]
    cause: str
    remedy: Sequence[str]
    wish: Wish | None = None


def diagnoses(snapshot: Snapshot, past: Sequence[HistoryPoint], zone: tzinfo | None) -> list[Diagnosis]:
    """All that is wrong, the dearest first."""
    return [told(finding, snapshot, zone) for finding in diagnose(snapshot, past)]


def told(finding: Finding, snapshot: Snapshot, zone: tzinfo | None) -> Diagnosis:
    """A finding in words."""
    said = _TELLERS[type(finding)](finding, At(snapshot, zone))
    key = str(type(finding).__struct_config__.tag)
    return Diagnosis(key, finding.harm, said.title, said.cost, said.evidence, said.cause, said.remedy, said.wish)
