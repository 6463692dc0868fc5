"""The words for a Kafka Streams application: a clock for each task, what is stuck, and what frees it. Pure."""

from collections.abc import Sequence
from datetime import tzinfo

from msgspec.structs import replace

from ....engine.doctor.kinds.kafka_streams_words import clock_name
from ....engine.snapshot import ChannelView, KafkaStreams, Snapshot
from ....engine.text import formatting as f
from ....engine.verdict.history import HistoryPoint
from ..channel_columns import BACKLOG, EVENT_LAG, RATE, WATERMARK, ChannelColumn, ListedChannel, channel_column
from ..clocks import (
    behind_ms,
    behind_words,
    clock_lines,
    counts,
    groups,
    partition_line,
    partition_state,
    stuck_words,
    time_words,
    unchanged_words,
)
from ..naming import named
from ..operators import Stage
from ..preview import Preview
from ..progress import Cells, Chart, backlog_chart
from ..spans import Part, Span, lay, part, text_of
from ..texts import NO_CHANNEL
from ..watermark import worst_clock
from .presenter import Presenter, What
from .topic import advice_by_reading

MORE_OPTIONS = "attach with --window D --grace D to see which windows wait"
EACH_ITS_OWN = "Each task has a clock of its own: none holds back another"
_CHECK = "Check that the application runs"
_NOT_HERE: dict[str, str] = {
    "Windows": f"Which windows wait is not in the commits: {MORE_OPTIONS}",
    "Blockers": f"{EACH_ITS_OWN}. The main screen shows which tasks are stuck",
    "History": f"{EACH_ITS_OWN}. Events (key e) has the verdicts so far",
    "Lateness": "Late records are not in the commits: the application's metric dropped-records-total counts them",
    "Time": "Event times of records are not in the commits; 'wmtop run kafka BROKERS TOPIC --time PATH' reads them",
    "Operators": "The topology is not in the commits: the main screen shows the tasks by sub-topology",
    "Who is late": "Late records are not in the commits: the application's metric dropped-records-total counts them",
}
"""The screens that have nothing to show, and what to use instead."""


def _behind(listed: ListedChannel) -> str:
    """How far its stream time is behind the wall clock."""
    now = listed.snapshot.now_ms
    time = listed.row.time_ms
    behind = None if now is None or time is None else now - time
    return f.signed(-behind) if behind is not None and behind < 0 else f.duration(behind)


def _unchanged(listed: ListedChannel) -> str:
    return unchanged_words(listed.snapshot, listed.row.view) or f.UNKNOWN


_COLUMNS = (
    replace(WATERMARK, title="stream time"),
    channel_column("behind", 8, _behind, "behind"),
    BACKLOG,
    channel_column("unchanged", 9, _unchanged, "no data", rank=2),
    replace(EVENT_LAG, rank=6),
    replace(RATE, rank=7),
    channel_column("state", 14, lambda listed: partition_state(listed.snapshot, listed.row.view), "state", right=False),
)


class KafkaStreamsWords(Presenter):
    """A Kafka Streams application, by the stream times in its commits."""

    how_to_type = "the grace is set in the application · Esc drops"
    not_explained = "Late records are not in the commits of a Kafka Streams application"

    def __init__(self, snapshot: Snapshot, target: KafkaStreams) -> None:
        super().__init__(snapshot)
        self._streams = target.streams

    def kind_name(self) -> str:
        return "Kafka Streams application"

    @property
    def channel_columns(self) -> Sequence[ChannelColumn]:
        """The stream time of each partition, and whether it advances."""
        return _COLUMNS

    def channel_line(self, view: ChannelView) -> list[Span]:
        return partition_line(self._snapshot, view)

    def _measures(self) -> list[str]:
        """Window and grace, and the worst clocks."""
        return [text_of(lay(self.tuning(None, None), 1_000)), *clock_lines(self._snapshot)]

    def no_advice(self, name: str, address: str, *, recorded: bool) -> list[str]:
        return advice_by_reading(name, None if recorded else address)

    def untunable(self) -> str:
        """The grace is set in the application."""
        return "Grace is set in the application: TimeWindows.ofSizeAndGrace(size, grace)"

    def not_here(self, screen: str) -> str | None:
        known = screen == "Windows" and self._streams.window_ms is not None and self._streams.grace_ms is not None
        return None if known else _NOT_HERE.get(screen)

    def watermark(self, zone: tzinfo | None) -> list[Part]:
        """How many clocks there are, and the one that the verdict is about."""
        clocks = self._snapshot.clocks
        worst = worst_clock(self._snapshot)
        parts = [part((" CLOCKS ", "title"), (f"{len(clocks):,}", "level"))]
        if worst is not None:
            at: list[Span] = [(clock_name(worst), "strong"), (" at ", "dim")]
            parts.append(part(*at, (time_words(self._snapshot, worst, zone), "level")))
            behind = behind_words(self._snapshot, worst)
            parts += [part((behind, "text"), rank=2, gap=" · ")] if behind else []
            parts.append(part(*counts(clocks), rank=4))
        return parts

    def holder(self, zone: tzinfo | None) -> list[Part]:
        """What is stuck, and the record that frees it."""
        worst = worst_clock(self._snapshot)
        said = [] if worst is None else stuck_words(self._snapshot, worst, zone)
        if worst is None or not said:
            return [part((f" {EACH_ITS_OWN}" if worst else f" {self.no('barrel')}", "dim"))]
        if worst.waiting is not None and worst.verdict == "waiting":
            record, _, rest = said[-1].partition(" frees")
            return [part((f" {record}", "holder"), rank=1), part((f"frees{rest}", "text"), rank=1, gap=" ")]
        if worst.verdict == "stalled":
            return [part((f" {_CHECK}", "text")), part((said[0], "holder"), rank=1, gap=": ")]
        newer = f" only a newer record in {named(worst.channels, 0)} advances it"
        more = [] if self.not_here("Windows") is None else [part((MORE_OPTIONS, "dim"), rank=1, gap=" · ")]
        return [part((newer, "text")), *more]

    def _settings(self, preview: Preview | None) -> list[Part]:
        """Window and grace as given, or how to give them; the group."""
        streams = self._streams
        if streams.window_ms is None and streams.grace_ms is None:
            parts = [part((f" window and grace: {f.ELSEWHERE}", "dim"), (" (--window D --grace D)", "dim"))]
        else:
            window, grace = (f.UNKNOWN if ms is None else f.setting(ms) for ms in (streams.window_ms, streams.grace_ms))
            parts = [part((" window ", "dim"), (window, "strong")), part(("grace ", "dim"), (grace, "strong"))]
        group = [f.clean(streams.state)] if streams.state else []
        group += [f.counted(streams.members, "member")] if streams.members is not None else []
        return [*parts, part(("group ", "dim"), (", ".join(group) or f.UNKNOWN, "strong"), rank=4)]

    def stages(self, zone: tzinfo | None) -> list[Stage]:
        """The sub-topologies: each with its clock that is most behind."""
        out = [Stage("clock", self._snapshot.now_ms, "processing time", instead=f.NO_DATA)]
        for title, clocks in groups(self._snapshot.clocks):
            last = min(clocks, key=lambda clock: (clock.time_ms is not None, clock.time_ms or 0))
            what = f"{clock_name(last)} is most behind, of {f.counted(len(clocks), 'clock')}"
            out.append(Stage(title, last.time_ms, what, behind_ms(self._snapshot, last), instead=f.NO_DATA))
        return out

    def _none(self) -> dict[What, str]:
        barrel = "no commit of the application has a stream time yet (the first comes after commit.interval.ms)"
        return {
            **super()._none(),
            "barrel": barrel,
            "channels": barrel,
            "inputs": NO_CHANNEL,
            "windows": _NOT_HERE["Windows"] if self.not_here("Windows") else "no window waits",
            "holders": EACH_ITS_OWN,
            "lateness": _NOT_HERE["Lateness"],
            "idle timeouts": "Kafka Streams has no idle timeout: a partition without data keeps its windows open",
            "records": _NOT_HERE["Time"],
            "what-if": f"No what-if is known: {_NOT_HERE['Lateness']}",
            "judgement": "Known by its commits: late records, open windows and grace are not in them, nor judged.",
        }

    def charts(self, points: Sequence[HistoryPoint], cells: Cells) -> list[Chart]:
        """What is unread; rates and state are not in commits."""
        return [backlog_chart(self._snapshot, cells)]
