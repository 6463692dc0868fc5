"""The words for an attached Spark query: its one clock, its watermarks, its siblings. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec.structs import replace

from ....engine.snapshot import STATE_SCHEMA, BarrelRule, Snapshot, SparkQuery
from ....engine.text import formatting as f
from ..channel_columns import BACKLOG, EVENT_AHEAD, EVENT_LAG, EVENT_TIME, NO_DATA, RATE, RECORDS, STATE, ChannelColumn
from ..notes import note_text
from ..output_mode import output_words
from ..preview import Preview
from ..spans import Part, Span, lay, part, text_of
from ..tap import needed_line
from ..watermark import delay_words, motion, window
from .presenter import ONE_CLOCK, ONE_CLOCK_FOLLOWS, Presenter, What, late_share_at

_ONE_CLOCK_COLUMNS = (EVENT_TIME, EVENT_AHEAD, RATE, RECORDS, BACKLOG, replace(EVENT_LAG, rank=7), NO_DATA, STATE)
_MAX_SIBLINGS = 8


class SparkQueryWords(Presenter):
    """An attached Spark query."""

    def __init__(self, snapshot: Snapshot, query: SparkQuery) -> None:
        super().__init__(snapshot)
        self._query = query

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
        level = self._snapshot.level
        none = super()._none()
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
        barrel = self._query.barrel
        if barrel is None or self._snapshot.ended or self.held_by():
            return super().holder(zone)
        return barrel_parts(barrel, level_ms=self._snapshot.level.watermark_ms, zone=zone)

    @property
    def channel_columns(self) -> Sequence[ChannelColumn]:
        """With one clock only the event times of channels are known; the watermark is not theirs."""
        return super().channel_columns if self._query.barrel is None else _ONE_CLOCK_COLUMNS

    def identity(self) -> str | None:
        """The query's own name, else the end of its path."""
        reported = self._query.spark.query_name
        return super().identity() if reported in (None, self._snapshot.name) else f"query {reported}"

    def no_watermark(self) -> str:
        """Why there is none; rows are mentioned only if the query reports them."""
        spark = self._query.spark
        if spark.has_watermark is False:
            return "none: this query has no withWatermark"
        if spark.never_moved:
            return "still at 1970"
        return f.ELSEWHERE if (self._snapshot.origin or {}).get("level") == "driver" else f.NO_DATA

    def after_restart(self, lateness_ms: int | None) -> str:
        return restart_words(self._snapshot, lateness_ms)

    def whole_identity(self) -> str:
        """Its name, its id, and what was attached to."""
        spark = self._query.spark
        attached_to = super().whole_identity()
        reported = [] if spark.query_name is None else [f"query {f.clean(spark.query_name)}"]
        reported += [] if spark.query_id is None else [f"id {f.clean(spark.query_id)}"]
        return ", ".join([*reported, attached_to] if attached_to else reported)

    def _how_to_see_channels(self) -> list[str]:
        spark = self._query.spark
        nodes = self._query.spark.nodes or []
        if len(nodes) < 2:
            return super()._how_to_see_channels()
        policy = f"; the {spark.policy} of them counts" if spark.policy else ""
        delays = [f"  {f.label(node.column or 'window', 20)} delay {delay_words(node.delay_ms)}" for node in nodes]
        return [*super()._how_to_see_channels(), f"{len(nodes)} watermarks{policy}", *delays]

    def _late_by_slowest(self, delay_ms: int | None) -> str | None:
        barrel = self._query.barrel
        return None if barrel is None else late_share_at(self._snapshot, barrel.whatif, delay_ms)

    def _watermark_lines(self) -> list[str]:
        barrel = self._query.barrel
        if barrel is None:
            return super()._watermark_lines()
        parts = barrel_parts(barrel, level_ms=self._snapshot.level.watermark_ms, zone=None)
        return [*super()._watermark_lines(), text_of(lay(parts, 1_000))]

    def _delay_since(self) -> str:
        return first_started(self._snapshot)

    def _plan_lines(self) -> list[str]:
        emits = output_words(self._snapshot)
        return [*([] if emits is None else [emits]), *node_lines(self._snapshot)]

    def _measures(self) -> list[str]:
        return [*super()._measures(), *sibling_lines(self._snapshot)]

    def _no_holder(self) -> str:
        spark = self._snapshot.spark
        several = self._snapshot.has_several_inputs
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


def barrel_parts(barrel: BarrelRule, *, level_ms: int | None, zone: tzinfo | None) -> list[Part]:
    """The watermark by the slowest channel instead of Spark's one clock, and how many channels lose rows to that."""
    parts: list[Part] = []
    if barrel.holder is None:
        parts.append(part((" the watermark by the slowest channel is ", "dim"), (f.ELSEWHERE, "dim")))
    elif barrel.watermark_ms is None:
        parts.append(part((" by the slowest channel: no watermark, ", "dim"), (f.label(barrel.holder, 24), "holder")))
        parts.append(part(("has no records", "text"), gap=" "))
    else:
        apart = max((level_ms or barrel.watermark_ms) - barrel.watermark_ms, 0)
        lower: list[Span] = [(" by the slowest channel it would be ", "dim"), (f"{f.duration(apart)} lower", "strong")]
        parts.append(part(*lower, (": ", "dim"), (f.label(barrel.holder, 24), "holder")))
        parts.append(part((f.clock(barrel.watermark_ms, zone, level_ms), "held"), rank=3, gap=", "))
    behind = f"{f.counted(len(barrel.below), 'channel')} behind Spark's watermark"
    below: Span = (behind, "bad") if barrel.below else ("no channel behind Spark's watermark", "good")
    return [*parts, part(below, rank=1, gap=" · ")]


def restart_words(snapshot: Snapshot, delay_ms: int | None) -> str:
    """The effect of restarting a Spark query with another delay; empty without one."""
    now_ms = snapshot.settings.lateness_ms
    if not snapshot.one_clock or now_ms is None or delay_ms is None or delay_ms == now_ms:
        return ""
    apart = f.duration(abs(delay_ms - now_ms))
    if delay_ms < now_ms:
        return f"after the restart its watermark jumps {apart} ahead with the first new records"
    dropped = ", and rows are dropped," if snapshot.spark.drops_late else ""
    return f"after the restart its watermark is frozen{dropped} for {apart} of event time"


def first_started(snapshot: Snapshot) -> str:
    """What to add to the delays of a query of which only those of its first start are known."""
    return " as first started" if (snapshot.origin or {}).get("lateness") == STATE_SCHEMA else ""


def node_lines(snapshot: Snapshot) -> list[str]:
    """If there are several watermarks, each with its delay and its effect on the query's, a line each."""
    lines: list[str] = []
    for node in snapshot.spark.nodes or ():
        at = f.ELSEWHERE if node.reached_ms is None else f.stamp(node.reached_ms, None)
        if node.watermark_ms is None and node.at_least_ms is not None:
            at = f"at least {at}"
        words = {
            "no_input": "stuck at 1970, its input has no records",
            "own_output": "stuck at 1970, it waits for the query's own output",
            None: at + (", sets the watermark of the query" if node.holds else ""),
        }[node.pinned]
        feeds = [f.clean(snapshot.sources[place].description) for place in node.sources or () if snapshot.sources]
        source = f" from {feeds[0]}" if len(feeds) == 1 else ""
        column = f.clean(node.column or "an unknown column")
        delay = delay_words(node.delay_ms) + first_started(snapshot)
        lines.append(f"watermark on {column}{source}, delay {delay}: {words}")
    return lines if len(lines) > 1 else []


def sibling_lines(snapshot: Snapshot) -> list[str]:
    """The other queries of the application: the failed and the running ones a line each, then how many others."""
    shown = [one for one in snapshot.siblings or () if one.state != "stopped"][:_MAX_SIBLINGS]
    lines = [
        f"query {f.clean(one.name)}: {one.state}" + ("" if one.error is None else f": {f.clean(one.error)}")
        for one in shown
    ]
    rest = len(snapshot.siblings or ()) - len(shown)
    return [*lines, f"{f.count(rest)} other quer{'y' if rest == 1 else 'ies'} of the application"] if rest else lines


def without_watermark(snapshot: Snapshot) -> str:
    """Why a Spark query has no watermark, as far as that is known."""
    has = snapshot.spark.has_watermark
    if has is False:
        return "this query has no watermark"
    stuck = next((note for note in snapshot.notes if note.code in ("watermark_pinned", "watermark_unmoved")), None)
    if stuck is not None:
        return note_text(stuck)
    return "the watermark has not moved yet" if has else "it has no watermark, or it has not moved yet"
