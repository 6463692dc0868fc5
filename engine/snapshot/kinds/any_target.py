"""What every kind of target can be asked: the base of the parts of a snapshot that only one kind has."""

from typing import ClassVar

from msgspec import Struct


class AnyTarget(Struct, frozen=True):
    """What only one kind of target has, and its abilities: shared code asks what a target can, never which kind it is.

    The answers here are those of a target that another program runs and of which little is known; a kind overrides what
    it knows better.
    """

    can_apply: ClassVar[bool] = False
    """Whether its settings can be changed from here while it runs; else a line for the job is given."""
    charts_batches: ClassVar[bool] = True
    """Whether its progress is that of batches."""
    counts_late: ClassVar[bool] = False
    """Whether each record is known to be late or on time."""
    expects_channels: ClassVar[bool] = False
    """Whether channels come with the first record; else perhaps only the watermark of the whole is known."""
    fires_windows: ClassVar[bool] = False
    """Whether a window that closes is emitted then; else that depends on the output mode."""
    has_hops: ClassVar[bool] = False
    """Whether it consists of hops, each with an event time of its own, instead of channels."""
    has_watermark: ClassVar[bool] = True
    """Whether there is a watermark of the whole, with which channels are compared; else each has a time of its own."""
    hides_writes: ClassVar[bool] = False
    """Whether it may write topics that it does not report."""
    is_own: ClassVar[bool] = False
    """Whether it is an engine of wmtop, which runs with what is installed here."""
    logs_changes: ClassVar[bool] = False
    """Whether it reports each change of its settings; else a change shows only in the settings themselves."""
    notes_by_time: ClassVar[bool] = False
    """Whether its notes are in the order in which they happened; else the first matters most."""
    previews_any_value: ClassVar[bool] = False
    """Whether any value of a setting can be previewed without a what-if, since a line for the job can be given."""
    reports_drops: ClassVar[bool] = False
    """Whether it always reports what it dropped as late."""
    reports_settings: ClassVar[bool] = True
    """Whether its settings are known as far as they are set."""
    samples_records: ClassVar[bool] = False
    """Whether its snapshots have a sample of its records."""
    time_name: ClassVar[str] = "watermark"
    """What a channel's time is called."""

    @property
    def target_kind(self) -> str:
        """The name of the kind in JSON: one of `TargetKind`, or a plug-in's own."""
        raise NotImplementedError
