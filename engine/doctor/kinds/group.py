"""A consumer group: partitions of which it has read nothing."""

from ...snapshot import ConsumerGroup
from ...text import formatting as f
from ..condition import note_of, number_in
from ..finding import Finding, Fix, n, names, verb
from ..rules import DiagnosisInput, rule

_CHECK_ASSIGNMENT = Fix(
    "check-assignment",
    "Check that a consumer of the group is assigned to the partition (kafka-consumer-groups.sh --describe)",
)


@rule("partitions-not-read", "Progress", "Blockers", accounts_for=("stalled", "unknown"))
def partitions_not_read(facts: DiagnosisInput) -> Finding | None:
    """A consumer group has read nothing from a partition that has records. A job that reads it has no watermark until
    it does.

    Recognised by: the group's offset is that of the partition's first record, or it has no offset there.
    What to do: check that a consumer of the group is assigned to the partition and reads it.
    """
    if not isinstance(facts.snapshot.target, ConsumerGroup) or facts.snapshot.state != "live":
        return None
    unread = [view for view in facts.channels if view.state == "never_seen" and view.backlog]
    left_out = note_of(facts, "partitions_uncommitted")
    if not unread and left_out is None:
        return None
    count, records = number_in(left_out, "partitions"), number_in(left_out, "records")
    uncommitted = None if count is None else f"{n(count, 'partition')} with {n(records, 'record')} and no commit"
    if not unread:
        return Finding(
            size=records or 0,
            title=f"The group has committed nothing on {n(count, 'partition')} with records",
            impact=f"Not known whether {n(records, 'record')} {'is' if records == 1 else 'are'} unread",
            cause="No consumer of the group reads it, or none has committed an offset there.",
            evidence=[uncommitted, None if left_out is None else f"First: {f.clean(str(left_out.args['partition']))}"],
            fixes=(_CHECK_ASSIGNMENT,),
            not_for=("stalled",),
        )
    channels, waiting = tuple(view.channel for view in unread), sum(view.backlog or 0 for view in unread)
    return Finding(
        severity="critical" if facts.verdict == "stalled" else "warning",
        size=waiting,
        channels=channels,
        title=f"The group has read nothing from {verb(channels, 'partition', 'partitions')} {names(channels)}",
        impact=f"{n(waiting, 'record')} unread; a job that reads them waits for the first one",
        cause="Its offset is that of the first record: no consumer of the group has read one.",
        evidence=[f"{n(len(unread), 'partition')} without a record that was read", uncommitted],
        fixes=(_CHECK_ASSIGNMENT,),
        blames="backlog",
    )
