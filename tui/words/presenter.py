"""The words of a snapshot by its kind of target, the target's state, and the status line. Pure."""

from datetime import tzinfo

from msgspec import Struct

from ...engine.snapshot import ConsumerGroup, FlinkJob, KafkaTopic, Other, OwnRun, Snapshot, SparkQuery, TargetPart
from ...engine.text import formatting as f
from ...engine.text.formatting import name
from .flink import FlinkJobWords
from .notes import note_text
from .progress import Playback, share_read
from .spans import Part, part
from .targets import OtherWords, OwnRunWords, Presenter, SparkQueryWords, TopicWords


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


class Condition(Struct, frozen=True):
    """The word for the state, its style, and a line on it."""

    word: str
    style: str
    note: str | None = None


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
    if snapshot.state == "starting":
        return Condition("STARTING", "stale")
    return Condition("LIVE", "good", recent_note(snapshot))


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
    style = then.style if then.style == "bad" else "good" if playback.playing else "stale"
    return Condition(word, style, " · ".join(note for note in (then.note, playback.note) if note) or None)


def identity(snapshot: Snapshot) -> str | None:
    """What is attached to, as short as possible: the query's own name, else the end of its path."""
    source = snapshot.source
    match snapshot.target:
        case OwnRun():
            return None
        case FlinkJob() as job:
            return f"job {job.id[:8]}" if job.name == snapshot.name else f"job {job.name} {job.id[:8]}"
        case SparkQuery(spark=spark) if spark.query_name is not None and spark.query_name != snapshot.name:
            return f"query {spark.query_name}"
        case _ if source is not None and "/" in source.description:
            return "/".join(source.description.split("/")[-2:])
        case _:
            return None


def whole_identity(snapshot: Snapshot) -> str:
    """All that identifies the query: its name, its id, and what was attached to."""
    spark, source = snapshot.spark, snapshot.source
    if isinstance(job := snapshot.target, FlinkJob):
        return f"job {f.clean(job.name)}, id {f.clean(job.id)}, {f.clean(job.state)}"
    reported = [] if spark.query_name is None else [f"query {f.clean(spark.query_name)}"]
    reported += [] if spark.query_id is None else [f"id {f.clean(spark.query_id)}"]
    reported += [] if source is None else [f"{source.kind} {f.clean(source.description)}"]
    return ", ".join(reported)


_IN_FLIGHT_MS = 2_000
"""A batch that runs for less (ms) is not mentioned."""


def status_parts(snapshot: Snapshot, now: Condition, zone: tzinfo | None) -> list[Part]:
    """Name, state, batch, rates, clock and speed."""
    spark, source = snapshot.spark, snapshot.source
    parts = [
        part((" ", "text")),
        part(("wmtop  ", "accent"), rank=4, gap=""),
        part((name(snapshot.name), "strong"), gap=""),
        part(("● ", now.style), (now.word, now.style), gap="  "),
    ]
    if (whose := identity(snapshot)) is not None:
        parts.append(part((f.label(whose, 40), "dim"), rank=6, gap="  "))
    if snapshot.batch is not None:
        parts.append(part((f"batch {snapshot.batch:,}", "text"), rank=3, gap="  "))
    if (running := in_flight(snapshot)) is not None:
        parts.append(part((running, "text"), rank=3, gap=", "))
    if spark.batch_ms is not None:
        parts.append(part((f"{spark.batch_ms / 1000:.2f} s", "text"), rank=5, gap=" · "))
    if spark.input_rows_per_second is not None:
        parts.append(part((f"{f.rate(spark.input_rows_per_second)} rows/s", "text"), rank=2, gap=" · "))
    if (read := share_read(snapshot)) is not None:
        parts.append(part((read, "text"), rank=6, gap=" · "))
    if snapshot.now_ms is not None:
        parts.append(part((f.stamp(snapshot.now_ms, zone), "text"), rank=1, right=True))
    if source and source.speed is not None:
        parts.append(part((f"×{source.speed:g}", "dim"), rank=3, right=True, gap="  "))
    parts.append(part((" ", "text"), right=True, gap=""))
    return parts


def in_flight(snapshot: Snapshot) -> str | None:
    """How long the last batch has been running, if that is long enough to mention."""
    begun = snapshot.spark.batch_timestamp_ms
    if not snapshot.spark.in_flight or begun is None or snapshot.now_ms is None:
        return None
    if snapshot.state in ("failed", "ended"):
        return None
    age_ms = snapshot.now_ms - begun
    word = "unfinished for" if snapshot.state == "stale" else "in flight"
    return None if age_ms < _IN_FLIGHT_MS else f"{word} {f.duration(age_ms)}"
