"""The words that differ between own runs and attached targets, chosen once, here; and the target's state. Pure."""

from collections.abc import Sequence
from datetime import tzinfo
from typing import Protocol

from msgspec import Struct

from ...engine.snapshot import ConsumerGroup, FlinkJob, KafkaTopic, Other, OwnRun, Snapshot, SparkQuery, TargetPart
from ...engine.text import formatting as f
from ...engine.verdict.history import HistoryPoint
from .attached import OtherWords, SparkQueryWords, TopicWords
from .flink import FlinkJobWords
from .notes import note_text
from .operators import Stage
from .own_run import OwnRunWords
from .preview import Preview
from .progress import Cells, Chart, Playback
from .spans import Part
from .wording import Condition


class Presenter(Protocol):
    """The words for one snapshot that depend on the kind of target."""

    can_apply: bool
    """Whether a previewed setting can be applied from here; else Enter gives the line to change in the job."""
    how_to_type: str
    """The hint beside the prompt for a lateness."""

    def __init__(self, snapshot: Snapshot) -> None: ...

    def untunable(self) -> str | None:
        """Why there is no lateness to change; None: there is."""
        ...

    def no_steps(self) -> str:
        """The words instead of a step of the preview if there is no what-if."""
        ...

    def state_override(self) -> tuple[str, str | None] | None:
        """The word for a state that is not simply live, with a line on it; None: the state is normal."""
        ...

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """The settings in force, what they cost, and what the preview would give."""
        ...

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """Which channel holds back the watermark, how long and why; else why none does."""
        ...

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        """The operators in the order in which records pass them."""
        ...

    def empty_barrel(self) -> str:
        """The barrel's text without channels, its most important line first."""
        ...

    def no_channels(self) -> str:
        """The channel table's text without channels."""
        ...

    def no_windows(self) -> str:
        """The window table's text without windows."""
        ...

    def no_holders(self) -> str:
        """The history's text if no channel ever held back the watermark."""
        ...

    def no_lateness(self) -> str:
        """The lateness screen's text without a curve."""
        ...

    def no_idle_ladder(self) -> str:
        """The lateness screen's text without idle timeouts to compare."""
        ...

    def no_records(self) -> str:
        """The time screen's text without records."""
        ...

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        """The figures of the progress screen, in the order in which they are drawn."""
        ...

    def not_judged(self) -> str | None:
        """What the doctor cannot judge from here; None: it can judge everything."""
        ...


def presenter_of(snapshot: Snapshot) -> Presenter:
    """The presenter for the snapshot's target."""
    return _PRESENTERS[type(snapshot.target)](snapshot)


_PRESENTERS: dict[type[TargetPart], type[Presenter]] = {
    OwnRun: OwnRunWords,
    SparkQuery: SparkQueryWords,
    FlinkJob: FlinkJobWords,
    KafkaTopic: TopicWords,
    ConsumerGroup: TopicWords,
    Other: OtherWords,
}


STALE_AFTER_S = 3.0
_NOTED_MS = 5 * f.MINUTE
"""How long (ms) a note stays on the screen."""


class Lost(Struct, frozen=True):
    """No more snapshots will come; `reason` is why, None: the engine stopped normally."""

    reason: str | None = None

    @property
    def text(self) -> str:
        """The reason as a line."""
        return self.reason or "The engine has stopped; this is its last snapshot"


def condition(snapshot: Snapshot, *, frozen: bool, silent_s: float, lost: Lost | None) -> Condition:
    """The state, `silent_s` after the last snapshot; `lost`: no more will come."""
    if snapshot.state == "failed":
        return Condition("FAILED", "bad", f.first_line(snapshot.error or "The engine failed"))
    if lost is not None and not snapshot.ended:
        return Condition("STOPPED" if lost.reason is None else "FAILED", "bad", lost.text)
    if frozen:
        return Condition("FROZEN", "stale")
    if snapshot.ended or snapshot.state == "ended":
        return Condition("ENDED", "dim", recent_note(snapshot) if snapshot.is_attached else None)
    if snapshot.state == "paused":
        return Condition("PAUSED", "stale")
    if silent_s > STALE_AFTER_S:
        return Condition(f"STALE {f.duration(int(silent_s) * 1_000)}", "stale")
    if (state_override := presenter_of(snapshot).state_override()) is not None:
        word, note = state_override
        return Condition(word, "stale", note)
    note = recent_note(snapshot)
    return {
        "starting": Condition("STARTING", "stale"),
        "stale": Condition("STALE", "stale", note),
        "partial": Condition("PARTIAL", "stale", "Some channels are unknown"),
    }.get(snapshot.state, Condition("LIVE", "good", note))


def recent_note(snapshot: Snapshot) -> str | None:
    """The last thing that happened to the source, for some minutes; of an attached query what matters most."""
    wall_ms = snapshot.wall_ms
    if wall_ms is None:
        return None
    notes = snapshot.notes[:1] if snapshot.is_attached else snapshot.notes
    recent = [note for note in notes if wall_ms - note.wall_ms < _NOTED_MS]
    return note_text(recent[-1]) if recent else None


def takes_changes(snapshot: Snapshot, *, replay: bool, gone: bool) -> bool:
    """Whether Enter does something with a preview: not in a recording, nor once the own engine is `gone`."""
    return not replay and not (gone and presenter_of(snapshot).can_apply)


def replay_condition(snapshot: Snapshot, playback: Playback) -> Condition:
    """The state of a replay, and the state at that moment of the recording."""
    then = condition(snapshot, frozen=False, silent_s=0.0, lost=None)
    word = playback.word if then.word == "LIVE" else f"{playback.word} · {then.word}"
    ink = then.ink if then.ink == "bad" else "good" if playback.playing else "stale"
    return Condition(word, ink, " · ".join(note for note in (then.note, playback.note) if note) or None)
