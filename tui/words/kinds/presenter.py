"""The words in which kinds of target differ: the base, with those of an attached target. Pure."""

from collections.abc import Mapping, Sequence
from datetime import tzinfo
from typing import ClassVar, Literal

from msgspec.structs import replace

from ....engine.snapshot import Cause, ChannelView, Snapshot, SourcePosition, WhatIf
from ....engine.snapshot.recommendation import recommendation
from ....engine.text import formatting as f
from ....engine.text.codes import CAUSES, CHANNEL_STATES, CauseWords, recommended_line, unknown_text
from ....engine.text.formatting import name
from ....engine.verdict.blame import holding_channel
from ....engine.verdict.history import HistoryPoint
from ..channel_columns import AHEAD, BACKLOG, EVENT_LAG, IDLE_CHANGES, NO_DATA, RATE, STATE, WATERMARK, ChannelColumn
from ..channels import ahead_ms
from ..fact_values import Value
from ..holder import holder_parts
from ..notes import note_text
from ..operators import Stage, stages_of_query, stages_of_run
from ..preview import UNTUNABLE, IdlePreview, LatenessPreview, Preview, late_at
from ..progress import Cells, Chart, charts, in_flight
from ..spans import Part, Span, part
from ..tap import THE_LINE, needed_line
from ..texts import ALL_IDLE, NO_OPEN_WINDOW, TAP_SHOWS_CHANNELS
from ..watermark import cause_sentence, channels_known, held_for, late_drops, moved, watermark_parts, window

ONE_CLOCK_FOLLOWS = "no channel holds back the watermark: Spark's one clock follows the fastest channel"
ONE_CLOCK = "one clock for the whole query"
UNREAD_COLUMNS = (WATERMARK, AHEAD, BACKLOG, EVENT_LAG, replace(RATE, rank=6), NO_DATA, IDLE_CHANGES, STATE)
"""The columns where only the backlog of channels is known, not their records."""
What = Literal[
    "barrel", "channels", "inputs", "windows", "holders", "lateness", "idle timeouts", "late records", "records",
    "what-if", "judgement",
]  # fmt: skip


class Presenter:
    """The words for one snapshot that depend on the kind of target; here those of an attached one, little known."""

    causes: ClassVar[Mapping[Cause, CauseWords]] = CAUSES
    """The words for what holds back the watermark."""
    how_to_type: ClassVar[str] = "like 45m · Enter gives the line for the job · Esc drops"
    """The hint beside the prompt for a lateness."""
    late_name: ClassVar[str] = "dropped as late"
    """What its late records are called."""
    not_explained: ClassVar[str] = (
        "Which values late records have is known of runs with --explain COL,… only; replay the data in one"
    )
    """Why it is not known which values late records have."""
    paused_by: ClassVar[str] = "--max-drift"
    """What pauses a channel until slower ones catch up."""
    without_timeout: ClassVar[str] = "a record, or an idle timeout (none is set)"
    """What frees a channel without data if there is no idle timeout."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def untunable(self) -> str | None:
        """Why there is no lateness to change; None: there is. Only some strategies have one."""
        settings = self._snapshot.settings
        return None if settings.tunable else UNTUNABLE[settings.strategy]

    def no(self, what: What) -> str:
        """The text instead of what is missing; `judgement`: what the doctor cannot judge from here, empty: nothing."""
        return self._none()[what]

    def state_override(self) -> tuple[str, str | None] | None:
        """The word for a state that is not simply live, with a line on it; None: the state is normal."""
        snapshot = self._snapshot
        if snapshot.state not in ("stale", "partial"):
            return None
        note = note_text(snapshot.notes[0]) if snapshot.notes else None
        begun = snapshot.spark.batch_timestamp_ms
        if snapshot.state != "stale" or begun is None or snapshot.now_ms is None:
            return snapshot.state.upper(), note
        return f"STALE {f.duration(max(snapshot.now_ms - begun, 0))}", note

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        """The settings in force, what they cost, and what the preview would give."""
        snapshot = self._snapshot
        parts = self._settings(preview)
        backlogs = [source.backlog for source in snapshot.sources or []]
        unread = sum(known for known in backlogs if known is not None)
        if backlogs and (unread or None not in backlogs):
            least = "≥ " * (None in backlogs)
            parts.append(part(("backlog ", "dim"), (f"{least}{f.count(unread)}", "strong"), rank=3))
        if preview is not None:
            return [*parts, *self._outlook(preview)]
        late = snapshot.spark.dropped_at_least
        parts.append(part(("late ", "dim"), (late_drops(snapshot), "dim" if late is None else "strong"), rank=2))
        return parts + self._costs()

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """Which channel holds back the watermark, how long and why; else why none does."""
        if self._snapshot.ended:
            return []
        none = f" {self._no_holder()}"
        shorter = (f" {(none.partition(': ')[2] or none).strip()}", "dim")
        return self.held_by() or [part((none, "dim"), rank=5, short=(shorter,))]

    def held_by(self) -> list[Part]:
        """The channel that holds back the watermark, how long and why; empty if no channel does."""
        return holder_parts(self._snapshot, self.cause())

    def cause(self) -> str:
        """Why the holder holds back the watermark, in words with numbers; empty if none does."""
        return cause_sentence(self._snapshot, self.causes, all_read=self._all_read())

    def headline(self) -> str | None:
        """What is said of it before its verdict's reason; None: nothing."""
        return None

    def kind_name(self) -> str:
        """What kind of target it is, in a word or two; empty: not known."""
        return "" if self._snapshot.source is None else self._snapshot.source.kind

    def fleet_kind(self) -> str | None:
        """The kind in a list of targets; None: it is that of its address."""
        return None if self._snapshot.source is None else self._snapshot.source.kind

    def identity(self) -> str | None:
        """What is attached to, as short as possible: the end of its path; None: its name says it."""
        source = self._snapshot.source
        path = [] if source is None else source.description.split("/")
        return "/".join(path[-2:]) if len(path) > 1 else None

    def whole_identity(self) -> str:
        """All that identifies it: what was attached to."""
        source = self._snapshot.source
        return "" if source is None else f"{source.kind} {f.clean(source.description).removeprefix('group ')}"

    def no_advice(self, name: str, address: str, *, recorded: bool) -> list[str]:
        """Why no lateness is recommended for the target of that name, and how to collect the evidence.

        `recorded`: `address` is that of a recording.
        """
        return [
            f"{name}: how late the records of this query are is not known from outside. Add two lines to its job:",
            "  from wmtop.engine import publish, tap",
            '  publish(spark); events = tap(events, "event_time", channel="partition")   # before withWatermark',
            "  then: wmtop advise NAME. Or replay its data: wmtop run replay FILE… --time COL --once --record run.rec",
        ]

    def no_watermark(self) -> str:
        """What is shown instead of a watermark that is not known."""
        return f.NO_DATA

    def after_restart(self, lateness_ms: int | None) -> str:
        """The effect of restarting it with another lateness; empty: nothing is to be said of it."""
        return ""

    def end(self) -> str:
        """What the end means: what was attached to keeps its open windows when it is stopped."""
        still = self._snapshot.windows.open_count
        return "the query was stopped" + (f", open windows: {f.count(still)}" if still else "")

    def end_sentence(self) -> str:
        """That it has ended, as a sentence."""
        return "The query was stopped"

    def watermark(self, zone: tzinfo | None) -> list[Part]:
        """The watermark and how far it is behind."""
        return watermark_parts(self._snapshot, zone, self.no_watermark())

    def not_here(self, screen: str) -> str | None:
        """Why a further screen has nothing to show of this kind of target, in a line; None: it has."""
        return None

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        """The operators as records pass them: by channels if they are known, else the known parts of the query."""
        by_channel = channels_known(self._snapshot) and not self._snapshot.has_several_inputs
        if by_channel:
            return stages_of_run(self._snapshot, zone, self.cause())
        return stages_of_query(self._snapshot, zone)

    @property
    def channel_columns(self) -> Sequence[ChannelColumn]:
        """The columns of its table of channels, the most important time first."""
        return UNREAD_COLUMNS

    def channel_line(self, view: ChannelView) -> list[Span]:
        """The state of a channel, in a sentence."""
        if holding_channel(self._snapshot) == view.channel and self._snapshot.level.holder is not None:
            blamed = f" holds back the watermark{held_for(self._snapshot)}: {self.cause()}."
            return [(name(view.channel), "holder"), (blamed, "text")]
        ahead = ahead_ms(self._snapshot, view)
        if view.state != "active":
            quiet = "" if view.quiet_ms is None else f", no data for {f.duration(view.quiet_ms)}"
            behind = "" if ahead is None or ahead >= 0 else f", {f.duration(-ahead)} behind the watermark"
            state = CHANNEL_STATES[view.state].sentence.format(quiet=quiet, behind=behind)
        elif ahead is None:
            state = "is active, and has no watermark yet" if view.watermark_ms is None else "is active"
        else:
            active, side = ("active, ", "ahead of") if ahead >= 0 else ("", "behind")
            state = f"is {active}{f.duration(abs(ahead))} {side} the watermark"
        return [(name(view.channel), "strong"), (f" {state}.", "text")]

    def further_channel_facts(self, view: ChannelView, zone: tzinfo | None) -> list[tuple[str, list[Span]]]:
        """What else is known of a channel's time, each fact with its name."""
        return []

    def note_on_inputs(self) -> str | None:
        """What must be known to read the list of inputs; None: nothing."""
        return None

    def named_facts(self) -> dict[str, Value]:
        """The facts that only its kind has, by the names that conditions use; durations in ms."""
        return {}

    def further_facts(self) -> list[tuple[str, str]]:
        """The facts that only it reports, each with its value in words."""
        return []

    def listing(self, zone: tzinfo | None) -> list[str]:
        """What it consists of, as lines of plain text, if that is not its channels."""
        return []

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        """The figures of the progress screen, in the order in which they are drawn."""
        return charts(self._snapshot, points, cells)

    def _none(self) -> dict[What, str]:
        """The texts of `no`."""
        windows = self._snapshot.windows
        unknown = unknown_text(windows.unknown, windows.unknown_args)
        why = f.ELSEWHERE if unknown is None else f"{f.ELSEWHERE}: {unknown}"
        return {
            "barrel": "no partition has records",
            "channels": "\n".join([*self._how_to_see_channels(), *map(position, self._snapshot.sources or [])]),
            "windows": why if windows.open_count is None else NO_OPEN_WINDOW,
            "holders": f"Which channel holds back the watermark: {f.ELSEWHERE}",
            "lateness": f"How late records are: {f.ELSEWHERE}",
            "idle timeouts": f"What another idle timeout would give: {f.ELSEWHERE}",
            "records": f"Records: {f.ELSEWHERE}",
            "what-if": "No what-if is known here: type a lateness with =",
            "inputs": TAP_SHOWS_CHANNELS,
            "late records": "wmtop keeps late records only of its own runs: wmtop run … --late-output DIR",
            "judgement": "The query is attached: what is not known from here is not judged.",
        }

    def _how_to_see_channels(self) -> list[str]:
        return [f"{f.ELSEWHERE}: {needed_line(self._snapshot)} before withWatermark shows them", f"  {THE_LINE}"]

    def _settings(self, preview: Preview | None) -> list[Part]:
        """The line's first parts, on the settings and their preview."""
        raise NotImplementedError

    def _all_read(self) -> bool:
        """Whether the channel that holds back the watermark has no unread records."""
        return True

    def _no_holder(self) -> str:
        if not self._snapshot.channels:
            return f"{ONE_CLOCK}: what holds it back is {f.ELSEWHERE}"
        return ALL_IDLE if self._snapshot.level.idle else "no channel holds back the watermark"

    def _lateness(self, what: str, in_force: str, preview: Preview | None, rank: int = 0) -> Part:
        spans: list[Span] = [(f" {what} ", "dim"), (in_force, "strong")]
        if isinstance(preview, LatenessPreview):
            spans.append((f" ▸ {f.setting(preview.lateness_ms)}?", "preview"))
        return part(*spans, rank=rank)

    def _outlook(self, preview: Preview) -> list[Part]:
        """What a previewed setting would give after a restart."""
        snapshot = self._snapshot
        now = snapshot.level.watermark_ms
        parts: list[Part] = []
        if preview.level_ms is not None and now is not None:
            parts.append(part((f"▸ watermark {f.signed(preview.level_ms - now)}", "preview"), gap="  "))
        if isinstance(preview, IdlePreview):
            return parts
        if preview.share is None:
            return [*parts, part(("late share not known from here", "dim"), rank=1, gap=", " if parts else "   ")]
        parts.append(part((f"≤ {f.share(preview.share.high)} late", "preview"), gap=", " if parts else "  ▸ "))
        by_slowest = self._late_by_slowest(preview.lateness_ms)
        if by_slowest is not None:
            parts.append(part((f"≤ {by_slowest} by the slowest channel", "preview"), rank=1, gap=", "))
        now_ms = snapshot.settings.lateness_ms
        if now_ms is not None and preview.lateness_ms > now_ms:
            longer = f.duration(preview.lateness_ms - now_ms)
            parts.append(part((f"frozen for {longer} of event time after the restart", "dim"), rank=3, gap=" · "))
        return parts

    def _costs(self) -> list[Part]:
        """The late share by either rule at the delay in force, as far as the taps counted it."""
        delay = self._snapshot.settings.lateness_ms
        spark = late_share_at(self._snapshot, self._snapshot.whatif, delay)
        by_slowest = self._late_by_slowest(delay)
        if spark is None:
            return []
        rules: list[Span] = [("≤ ", "dim"), (spark, "strong")]
        if by_slowest is not None:
            rules += [(" by Spark's clock, ≤ ", "dim"), (by_slowest, "strong"), (" by the slowest channel's", "dim")]
        bucket = self._snapshot.whatif_bucket_ms
        counted = [] if bucket is None else [part((f"counted in {f.setting(bucket)}", "dim"), rank=7, gap=", ")]
        return [part(*rules, rank=3, gap=" · "), *counted]

    def _late_by_slowest(self, delay_ms: int | None) -> str | None:
        """The greatest late share at a delay if the slowest channel set the watermark; None: not known."""
        return None

    def summary(self, judged: str) -> list[str]:
        """What is known of it, in a few lines; `judged` is the verdict with what is wrong."""
        snapshot = self._snapshot
        batch = "" if snapshot.batch is None else f", batch {f.count(snapshot.batch)}"
        running = in_flight(snapshot)
        lines = [f"{f.clean(snapshot.name)}: {snapshot.state}{batch}{'' if running is None else f' {running}'}"]
        lines += [judged, self.whole_identity()]
        if snapshot.error is not None:
            lines.append(f"error: {f.clean(snapshot.error)}")
        return [*lines, *(f"  {note_text(note)}" for note in snapshot.notes), *self._measures()]

    def _measures(self) -> list[str]:
        """The lines of the summary on event time."""
        snapshot = self._snapshot
        settings = self._snapshot.settings
        windows = self._snapshot.windows
        lines = self._watermark_lines()
        if snapshot.spark.dropped_at_least is not None or snapshot.target.reports_drops:
            lines.append(f"dropped as late: {late_drops(snapshot)}")
        delay = f.ELSEWHERE if settings.lateness_ms is None else f.setting(settings.lateness_ms) + self._delay_since()
        opened = "" if windows.open_count is None else f", {f.count(windows.open_count)} open"
        size = f"size {f.ELSEWHERE}" if settings.window is None and windows.open_count else window(settings)
        lines.append(f"lateness {delay}, windows {size}{opened}")
        lines += [recommended_line(recommendation(snapshot))] if snapshot.whatif else []
        return [*lines, *self._plan_lines(), *map(position, snapshot.sources or [])]

    def _watermark_lines(self) -> list[str]:
        """The watermark and who holds it back, for the summary."""
        snapshot = self._snapshot
        level = self._snapshot.level
        watermark = self.no_watermark() if level.watermark_ms is None else f.stamp(level.watermark_ms, None)
        behind = "" if level.behind_clock_ms is None else f", {f.behind_clock(level.behind_clock_ms)}"
        ago = "" if (ago := moved(snapshot)) is None else f", moved {ago}"
        lines = [f"watermark {watermark}{behind}{ago}"]
        if level.holder is not None:
            lines.append(f"held back by {f.clean(level.holder.channel)}: {self.cause()}")
        return lines

    def _delay_since(self) -> str:
        """What to add to the delay if it is not surely the one in force."""
        return ""

    def _plan_lines(self) -> list[str]:
        """What is known of its plan, for the summary."""
        return []


def position(source: SourcePosition) -> str:
    """A source, its position and its backlog, in a line."""
    at = source.offsets
    if isinstance(at, dict):
        at = f.count(sum(at.values()))
    elif at is not None:
        at = f.count(at) if isinstance(at, int) else f.clean(at)
    backlog = "" if source.backlog is None else f", backlog {f.count(source.backlog)}"
    return f"{f.clean(source.description)}{'' if at is None else f' at {at}'}{backlog}"


def late_share_at(snapshot: Snapshot, rows: list[WhatIf] | None, delay_ms: int | None) -> str | None:
    """The greatest share that may be late at a delay."""
    late = None if not rows or delay_ms is None else late_at(rows, delay_ms)
    return None if late is None else f.share_of(int(late.high), snapshot.totals.records)
