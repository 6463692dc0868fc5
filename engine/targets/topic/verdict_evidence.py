"""What a look at a topic or a consumer group shows of whether its watermark moves."""

from collections.abc import Sequence

from msgspec.structs import replace

from ...snapshot import Snapshot, SourcePosition
from ...verdict.evidence import Evidence
from ..evidence import evidence_of_channels


def evidence_of_topic(shown: Snapshot) -> Evidence:
    """That of a topic, which nothing reads: each look is a beat."""
    return evidence_of_channels(shown)


def evidence_of_group(shown: Snapshot, positions: Sequence[SourcePosition]) -> Evidence:
    """That of a group with these positions: each of its commits is a beat."""
    return replace(evidence_of_channels(shown), beat="group", offsets=[position.offsets for position in positions])
