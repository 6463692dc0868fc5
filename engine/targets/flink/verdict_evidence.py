"""What a look at a Flink job shows of whether its watermark moves (`evidence.py` is about whom to blame)."""

from msgspec.structs import replace

from ...snapshot import Snapshot
from ...verdict.evidence import Evidence
from ..evidence import evidence_of_channels


def verdict_evidence_of(shown: Snapshot) -> Evidence:
    """The evidence of a job as it is shown; a restart restores no watermark."""
    job = shown.job
    channels = evidence_of_channels(shown)
    started_ms = None
    if shown.state == "live" and None not in (shown.now_ms, job.clock_ms, job.running_ms):
        ran_ms = (job.clock_ms or 0) - (job.running_ms or 0)
        started_ms = (shown.now_ms or 0) - ran_ms
    return replace(
        channels,
        reached=channels.reached | {f"task {id}": far for id, far in job.reached_upstream().items()},
        identity=job.id or None,
        restarted_ms=started_ms,
        keeps_watermark=False,
    )
