"""Judges snapshots of targets that other programs run, each with the evidence of its own kind."""

from wmtop.engine.snapshot import Chain, ConsumerGroup, FlinkJob, KafkaStreams, Snapshot, SparkQuery
from wmtop.engine.targets.evidence import evidence_of_channels
from wmtop.engine.targets.flink.verdict_evidence import verdict_evidence_of as evidence_of_job
from wmtop.engine.targets.spark.verdict_evidence import verdict_evidence_of as evidence_of_query
from wmtop.engine.targets.streams.verdict_evidence import picture_of_application
from wmtop.engine.targets.topic.verdict_evidence import evidence_of_group
from wmtop.engine.verdict.evidence import Picture
from wmtop.engine.verdict.target_history import RecordedPast, TargetHistory


class Judge(TargetHistory):
    """The history of a target, made from its snapshots."""

    def see(self, shown: Snapshot, *, after_gap: bool = False) -> Snapshot:
        """The snapshot with its verdict."""
        return self.judge(picture_of(shown), after_gap=after_gap)

    def recall(self, past: RecordedPast, shown: Snapshot) -> None:
        """Add what is on record of before the first snapshot."""
        self.remember(past, shown.settings)


def picture_of(shown: Snapshot) -> Picture:
    """The look that shows the snapshot."""
    target = shown.target
    match target:
        case SparkQuery():
            return Picture(shown, evidence_of_query(shown))
        case FlinkJob():
            return Picture(shown, evidence_of_job(shown))
        case KafkaStreams():
            return picture_of_application(shown, target.clocks, target.sources or ())
        case ConsumerGroup():
            return Picture(shown, evidence_of_group(shown, target.sources or ()))
        case Chain():
            return Picture(shown, None)
        case _:
            return Picture(shown, evidence_of_channels(shown))
