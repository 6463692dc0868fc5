"""The words of each attached kind of target, the choice by kind, the state of the target, the status line. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec import Struct

from ...engine.snapshot import (
    Chain,
    ConsumerGroup,
    FlinkJob,
    KafkaStreams,
    KafkaTopic,
    Other,
    OwnRun,
    Snapshot,
    SparkQuery,
    TargetPart,
)
from ...engine.text import formatting as f
from ...engine.text.codes import JOB_GONE, unknown_text
from ...engine.text.formatting import name
from ...engine.verdict.history import HistoryPoint
from .chain import headline, text_lines
from .clocks import KafkaStreamsWords
from .notes import note_text
from .operators import Stage, stages_of_job
from .preview import LatenessPreview, Preview
from .progress import Cells, Chart, Playback, age_words, job_charts, share_read
from .spans import Part, part
from .targets import ONE_CLOCK, ONE_CLOCK_FOLLOWS, OwnRunWords, Presenter, What, barrel_parts, holder_parts, needed_line
from .verdict import STALE_AFTER_MS
from .watermark import (
    cause,
    delay_words,
    fact_text,
    facts_of_plugin,
    first_started,
    late_drops,
    motion,
    task_or_input,
    window,
    without_watermark,
)

_MAX_FACTS = 4
"""Facts of a plug-in on the main screen, at most."""


class SparkQueryWords(Presenter):
    """An attached Spark query."""

    def _settings(self, preview: Preview | None) -> list[Part]:
        """Its watermark delay and windows."""
        snapshot = self._snapshot
        if snapshot.spark.has_watermark is False:
            return [part((" watermark delay ", "dim"), ("none", "strong"))]
        delays = [node.delay_ms for node in snapshot.spark.nodes or ()]
        marked = first_started(snapshot) if preview is None else ""
        first = [part((marked.strip(), "dim"), rank=6, gap=" ")] if marked else []
        if snapshot.settings.lateness_ms is None and len(delays) > 1 and None not in delays:
            each = ", ".join(delay_words(delay) for delay in delays)
            return [part((" watermark delays ", "dim"), (each, "strong")), *first]
        parts = [self._lateness("watermark delay", delay_words(snapshot.settings.lateness_ms), preview)]
        parts += [part((f.ELSEWHERE, "dim"), rank=5, gap=" ")] if snapshot.settings.lateness_ms is None else first
        return [*parts, part(("window ", "dim"), (window(snapshot.settings), "strong"), rank=4)]

    def _none(self) -> dict[What, str]:
        level, none = self._snapshot.level, super()._none()
        how = f"add {needed_line(self._snapshot)} to the job to see its channels"
        barrel = f"{ONE_CLOCK}; {how}\n{motion(self._snapshot)}"
        if level.watermark_ms is None:
            barrel = f"{ONE_CLOCK}\n{without_watermark(self._snapshot)}"
        holders = ONE_CLOCK_FOLLOWS if self._snapshot.channels else none["holders"]
        if self._snapshot.has_several_inputs:  # one of them may hold it back
            holders = self._no_holder()
        return {**none, "barrel": barrel, "holders": holders}

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """What the slowest channel would give, if it is known; else what sets the watermark."""
        barrel = self._snapshot.barrel
        if barrel is None or self._snapshot.ended or holder_parts(self._snapshot):
            return super().holder(zone)
        return barrel_parts(barrel, level_ms=self._snapshot.level.watermark_ms, zone=zone)

    def _no_holder(self) -> str:
        spark, several = self._snapshot.spark, self._snapshot.has_several_inputs
        if self._snapshot.channels and not several:
            return ONE_CLOCK_FOLLOWS
        if spark.has_watermark is False:
            return "no watermark, nothing to hold back"
        if spark.frozen_ms is not None:
            return f"{ONE_CLOCK}: after the restart it advances again once its records have caught up"
        holding = [
            f"{f.label(node.column or 'window', 24)} (delay {delay_words(node.delay_ms)})"
            for node in spark.nodes or ()
            if node.holds
        ]
        if holding:
            return f"{ONE_CLOCK}: the watermark on {' and '.join(holding)} sets it"
        return f"{ONE_CLOCK}: what holds it back is {f.ELSEWHERE}"


class TopicWords(Presenter):
    """A topic or a consumer group, whose watermark is computed here."""

    def _settings(self, preview: Preview | None) -> list[Part]:
        settings = self._snapshot.settings
        return [
            self._lateness("lateness", delay_words(settings.lateness_ms), preview),
            part(("assumed here", "dim"), rank=6, gap=" "),
            part(("idle after ", "dim"), (f.setting(settings.idle_after_ms), "strong"), rank=4),
        ]


class OtherWords(Presenter):
    """A plug-in's target."""

    def _settings(self, preview: Preview | None) -> list[Part]:
        """Its first facts."""
        return [
            part((f" {f.label(fact.name)} ", "dim"), (fact_text(fact), "strong"), rank=4)
            for fact in facts_of_plugin(self._snapshot)[:_MAX_FACTS]
        ]

    def _none(self) -> dict[What, str]:
        return {**super()._none(), "barrel": "no channel has records", "channels": "The plug-in reports no channels"}


class ChainWords(Presenter):
    """A chain as a target: its hops are listed where another target has channels."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        assert isinstance(snapshot.target, Chain)
        self._chain = snapshot.target

    def _settings(self, preview: Preview | None) -> list[Part]:
        return [part((f" {f.counted(len(self._chain.hops), 'hop')}", "dim"))]

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        return self._settings(preview)

    def holder(self, zone: tzinfo | None) -> list[Part]:
        return [] if self._snapshot.ended else [part((f" {headline(self._chain)}", "text"))]

    def _none(self) -> dict[What, str]:
        text = "\n".join(text_lines(self._chain, None))
        judged = "Each hop is judged by what its own target shows."
        return {**super()._none(), "barrel": text, "channels": text, "judgement": judged}


NO_WHAT_IF = "A what-if needs event times, which Flink's REST API does not have"
NO_WHAT_IF_HERE = "no what-if: Flink's REST API has no event times"
_LINE = "Keys + - and [ ] choose a value on the main screen, Enter gives the line to change in the job."
_TASK_CELLS = 28
_SKEW_MS = 30_000
"""Smallest clock difference (ms) that is shown."""


class FlinkJobWords(Presenter):
    """The words for a job whose subtasks report their watermarks; a `Presenter`."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self._job = snapshot.job

    def untunable(self) -> str | None:
        return None  # the line to change in the job can be given for any lateness

    def state_override(self) -> tuple[str, str | None] | None:
        """The job's own state if it does not run, else the age of its metrics or that some are missing."""
        snapshot, job = self._snapshot, self._job
        if snapshot.state not in ("stale", "partial", "starting"):
            return None
        error = None if snapshot.error is None else f.first_line(snapshot.error)
        if job.state not in ("RUNNING", "UNKNOWN") and not job.unanswered:
            return job.state, error
        if snapshot.state == "partial":
            return "PARTIAL", "Metrics of some subtasks are missing"
        if snapshot.state == "starting":
            return "STARTING", "The JobManager has no metrics of the job yet"
        if job.state == "UNKNOWN" and error is None:
            error = JOB_GONE
        age = age_words(snapshot, job.sampled_ms)
        return "STALE" if age is None else f"STALE {age}", error

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """Late records, the age of the metrics, restarts, checkpoints; the settings are not in the REST API."""
        snapshot, job = self._snapshot, self._job
        if preview is not None:
            value = preview.lateness_ms if isinstance(preview, LatenessPreview) else preview.idle_after_ms
            what = "lateness" if isinstance(preview, LatenessPreview) else "idle after"
            return [
                part((f" {what} ", "dim"), (f"▸ {f.setting(value)}?", "preview")),
                part((NO_WHAT_IF_HERE, "dim"), rank=1),
            ]
        is_known = snapshot.totals.late is not None
        parts = [part((" dropped as late ", "dim"), (late_drops(snapshot), "strong" if is_known else "dim"))]
        age = age_words(snapshot, job.sampled_ms)
        every = "" if job.interval_ms is None else f", every {f.setting(job.interval_ms)}"
        metrics = part(("metrics ", "dim"), (f"{age} old", "strong"), (every, "dim"), rank=1)
        parts.append(part(("no metrics yet", "dim"), rank=1) if age is None else metrics)
        ahead_ms = 0 if job.clock_ms is None or snapshot.now_ms is None else job.clock_ms - snapshot.now_ms
        if abs(ahead_ms) >= _SKEW_MS:
            words = f"{f.duration(abs(ahead_ms))} {'ahead of' if ahead_ms > 0 else 'behind'} this machine"
            parts.append(part(("JobManager's clock ", "dim"), (words, "stale"), rank=2))
        if job.restarts:
            parts.append(part(("restarts ", "dim"), (f.count(job.restarts), "bad"), rank=2))
        at = age_words(snapshot, job.checkpoint_ms)
        parts.append(part(("checkpoint ", "dim"), ("none" if at is None else f"{at} ago", "strong"), rank=4))
        parts.append(part((f"lateness and idle timeout {f.ELSEWHERE}", "dim"), rank=5))
        return parts

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """Which channel holds back the watermark; records in flight blame none."""
        snapshot = self._snapshot
        holder = snapshot.level.holder
        is_channel = holder is not None and any(one.channel == holder.channel for one in snapshot.channels)
        if holder is not None and is_channel and holder.cause == "no_watermark":
            return [part((f" {self._source()}", "holder"), (f": {cause(snapshot)}", "text"))]
        if holder is not None and (not is_channel or holder.cause == "kept_back"):
            return [part((f" {cause(snapshot)}", "text"))]  # a task is to blame, not the channel
        return holder_parts(snapshot) or super().holder(zone)

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        return stages_of_job(self._snapshot)

    def _none(self) -> dict[What, str]:
        """Without event times: which command has them, and how to get the line for the job."""
        topics, bootstrap = " ".join(self._job.topics) or "TOPIC", self._job.bootstrap or "BOOTSTRAP"
        where = "This command answers it: " if self._job.topics else "If the job reads Kafka, this does: "
        command = where + f.clean(f"wmtop run kafka {bootstrap} {topics} --time PATH")
        barrel = "no subtask reports a watermark yet"
        if self._job.state in ("FINISHED", "CANCELED", "FAILED"):
            barrel = f"the job is {self._job.state}: Flink keeps no metrics of it"
        windows = unknown_text(self._snapshot.windows.unknown or "not_in_rest", {})
        no_times = f"{f.ELSEWHERE}\n{NO_WHAT_IF}.\n{command}\n{_LINE}"
        return {
            **super()._none(),
            "barrel": barrel,
            "channels": barrel,
            "windows": f"{f.ELSEWHERE}: {windows}",
            "lateness": f"How late records are: {no_times}",
            "idle timeouts": f"What another idle timeout would give: {no_times}",
            "what-if": f"{NO_WHAT_IF}. {command}",
            "judgement": "A Flink job is attached: what its REST API does not show is not judged.",
        }

    def _source(self) -> str:
        """The task of the channel that holds the watermark back; all splits of a source may be alike."""
        holder = self._snapshot.level.holder
        assert holder is not None
        task = next((task for task in self._job.vertices if task.id == self._job.held_in), None)
        return name(holder.channel) if task is None else f.label(task.name, _TASK_CELLS)

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        return job_charts(self._snapshot, points, cells)

    def _no_holder(self) -> str:
        snapshot, level = self._snapshot, self._snapshot.level
        if self._job.state != "RUNNING":
            return JOB_GONE if self._job.state == "UNKNOWN" else f"The job is {self._job.state}"
        if not snapshot.channels:
            return self.no("barrel")
        if (unknown := task_or_input(snapshot)) is not None:
            return unknown
        # A split that no other active one is ahead of; a subtask (`#0`) may have such splits that are not reported.
        is_alone = level.behind_fastest_ms is not None and level.holder is not None and "#" not in level.holder.channel
        return super()._no_holder() if level.idle or is_alone else f"What holds it back is {f.ELSEWHERE}"


def presenter_of(snapshot: Snapshot) -> Presenter:
    """The presenter for the snapshot's target."""
    return _PRESENTERS[type(snapshot.target)](snapshot)


_PRESENTERS: dict[type[TargetPart], type[Presenter]] = {
    OwnRun: OwnRunWords,
    SparkQuery: SparkQueryWords,
    FlinkJob: FlinkJobWords,
    KafkaTopic: TopicWords,
    ConsumerGroup: TopicWords,
    KafkaStreams: KafkaStreamsWords,
    Other: OtherWords,
    Chain: ChainWords,
}


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
    if silent_s * 1_000 > STALE_AFTER_MS:
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
    reported += [] if source is None else [f"{source.kind} {f.clean(source.description).removeprefix('group ')}"]
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
