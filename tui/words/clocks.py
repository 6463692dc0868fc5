"""The words for a Kafka Streams application: a clock for each task, what is stuck, and what frees it. Pure."""

from collections import Counter
from collections.abc import Sequence
from datetime import tzinfo

from ...engine.doctor.kinds.kafka_streams_words import (
    age_of,
    clock_name,
    frees_words,
    producer_line,
    second_from,
    why_stuck,
    windows_wait,
)
from ...engine.snapshot import ChannelView, Clock, KafkaStreams, Snapshot
from ...engine.snapshot.kinds.kafka_streams import badness
from ...engine.snapshot.watermark import WORST_FIRST
from ...engine.text import formatting as f
from ...engine.verdict.history import HistoryPoint
from .operators import Stage
from .preview import Preview
from .progress import Cells, Chart, backlog_chart
from .spans import Part, Span, part
from .targets import Presenter, What
from .verdict import STYLES, WORDS, named
from .watermark import worst_clock

MORE_OPTIONS = "attach with --window D --grace D to see which windows wait"
EACH_ITS_OWN = "Each task has a clock of its own: none holds back another"
_CHECK = "Check that the application runs"
_MAX_LINES = 20
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


def behind_ms(snapshot: Snapshot, clock: Clock) -> int | None:
    """How far a clock is behind the wall clock (ms; below 0: ahead); None: not known."""
    return None if clock.time_ms is None or snapshot.now_ms is None else snapshot.now_ms - clock.time_ms


def ranked(clocks: Sequence[Clock]) -> list[Clock]:
    """The clocks, the worst first."""
    return sorted(clocks, key=badness)


def time_words(snapshot: Snapshot, clock: Clock, zone: tzinfo | None) -> str:
    """Its stream time; why it has none."""
    if clock.time_ms is None:
        return "no record yet" if clock.has_windows is False else "no time committed"
    return f.near(clock.time_ms, zone, snapshot.now_ms).partition(".")[0]


def behind_words(snapshot: Snapshot, clock: Clock) -> str:
    """`1h02m behind the clock`; empty if not known."""
    behind = behind_ms(snapshot, clock)
    return "" if behind is None else f.behind_clock(behind // f.SECOND * f.SECOND)


def verdict_words(clock: Clock) -> str:
    """`WAITING ≥ 12m`: its verdict, and for how long its stream time has not advanced where that matters."""
    age = age_of(clock) if clock.verdict in ("stalled", "waiting") else ""
    return f"{WORDS[clock.verdict]} {age}".strip()


def counts(clocks: Sequence[Clock]) -> list[Span]:
    """`2 STALLED  14 MOVING`: how many clocks have each verdict, the worst first."""
    number = Counter(clock.verdict for clock in clocks)
    spans: list[Span] = []
    for verdict in WORST_FIRST:
        if number[verdict]:
            spans.append((f"{'  ' * bool(spans)}{number[verdict]:,} {WORDS[verdict]}", STYLES[verdict]))
    return spans


def groups(clocks: Sequence[Clock]) -> list[tuple[str, list[Clock]]]:
    """The clocks by sub-topology, each group with its title, in the order of their numbers."""
    found: dict[tuple[bool, str], list[Clock]] = {}
    for clock in clocks:
        topology = "" if clock.task is None else clock.task.rpartition("_")[0]
        found.setdefault((clock.downstream, topology), []).append(clock)
    out: list[tuple[str, list[Clock]]] = []
    for (downstream, topology), group in sorted(found.items(), key=lambda item: (item[0][0], _number(item[0][1]))):
        what = f"Sub-topology {f.clean(topology)}" if topology else "Partitions (their tasks are not known)"
        out.append((f"{what}{', downstream of a repartition' * downstream}", sorted(group, key=_place)))
    return out


def _number(text: str) -> tuple[int, str]:
    return (int(text), "") if text.isdecimal() and len(text) < 19 else (0, text)


def _place(clock: Clock) -> tuple[str, tuple[int, str]]:
    """Its place in its group: by topic where the task is not known, and by number."""
    name = clock.task or (clock.channels[0] if clock.channels else "")
    before, _, number = name.replace("_", "-").rpartition("-")
    return before, _number(number)


def unchanged_words(snapshot: Snapshot, view: ChannelView) -> str:
    """`12m`, `≥ 12m`: for how long a partition's stream time has not advanced; empty if not known."""
    clock = _clock_of(snapshot, view)
    if view.since_ms is not None and snapshot.now_ms is not None:
        return f.duration(max(snapshot.now_ms - view.since_ms, 0))
    return "" if clock is None or not clock.age_at_least else age_of(clock)


def partition_state(snapshot: Snapshot, view: ChannelView) -> str:
    """`quiet 12m`: all is read, and nothing comes; `not processing`: records are unread and its task is stuck."""
    clock = _clock_of(snapshot, view)
    if view.backlog:
        return "not processing" if clock is not None and clock.verdict == "stalled" else "reading"
    if view.watermark_ms is None:
        return "never read"
    if view.backlog is None:
        return f.UNKNOWN
    is_quiet = (view.quiet_ms or 0) > (snapshot.verdict.patience_ms or f.MINUTE)
    return f"quiet {f.duration(view.quiet_ms or 0)}" if is_quiet else "all read"


def _clock_of(snapshot: Snapshot, view: ChannelView) -> Clock | None:
    return next((clock for clock in snapshot.clocks if view.channel in clock.channels), None)


def partition_line(snapshot: Snapshot, view: ChannelView) -> list[Span]:
    """Whether a partition of a Kafka Streams application advances, in a sentence."""
    unchanged, state = unchanged_words(snapshot, view), partition_state(snapshot, view)
    said = f", its stream time has not advanced for {unchanged}" if unchanged else ""
    unread = f", {f.counted(view.backlog, 'record')} unread" if view.backlog else ""
    return [(f.name(view.channel), "strong"), (f": {state}{unread}{said}.", "text")]


def clock_lines(snapshot: Snapshot) -> list[str]:
    """The worst clocks as lines of text for the command line, and how many more there are."""
    lines: list[str] = []
    for clock in ranked(snapshot.clocks)[:_MAX_LINES]:
        at = time_words(snapshot, clock, None) if clock.time_ms is None else f.stamp(clock.time_ms, None)
        who = "" if clock.task is None else f" ({', '.join(map(f.clean, clock.channels))})"
        said = [at, behind_words(snapshot, clock), verdict_words(clock), *stuck_words(snapshot, clock, None)]
        down = ", downstream" * clock.downstream
        lines.append(f"{clock_name(clock)}{who}{down}: {', '.join(text for text in said if text)}")
    rest = len(snapshot.clocks) - len(lines)
    return [*lines, f"and {f.counted(rest, 'more clock')}"] if rest > 0 else lines


def stuck_words(snapshot: Snapshot, clock: Clock, zone: tzinfo | None) -> list[str]:
    """Why it is stuck, how many windows wait, and the record that frees the first; empty while it moves."""
    if clock.verdict not in ("stalled", "waiting"):
        return []
    words = [why_stuck(snapshot, clock), windows_wait(clock.waiting_count)]
    return [text for text in (*words, frees_words(clock, zone, snapshot.now_ms)) if text]


def sending_words(snapshot: Snapshot, name: str | None, zone: tzinfo | None) -> list[Span]:
    """The command that frees the first window of the task of that name, and what to fill in; wmtop never sends it."""
    clock = next((clock for clock in snapshot.clocks if clock_name(clock) == name), None)
    line = None if clock is None else producer_line(snapshot, clock)
    if clock is None or clock.waiting is None or line is None:
        return []
    topic, _, number = clock.waiting.channels[0].rpartition("-")
    key = f"one that belongs to partition {number} of {f.name(topic)}"
    if clock.downstream:
        key = f"one whose record gets a key of {clock_name(clock)} before the repartition"
    at = f.stamp(second_from(clock.waiting.frees_ms), zone)
    value = f"a record that the application reads, with an event time of {at} or later"
    return [(f"{line}  ", "strong"), (f"KEY: {key}. VALUE: {value}. It is counted like any other record.", "text")]


class KafkaStreamsWords(Presenter):
    """A Kafka Streams application, by the stream times in its commits."""

    how_to_type = "the grace is set in the application · Esc drops"

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        assert isinstance(snapshot.target, KafkaStreams)
        self._streams = snapshot.target.streams

    def untunable(self) -> str:
        """The grace is set in the application."""
        return "Grace is set in the application: TimeWindows.ofSizeAndGrace(size, grace)"

    def not_here(self, screen: str) -> str | None:
        known = screen == "Windows" and self._streams.window_ms is not None and self._streams.grace_ms is not None
        return None if known else _NOT_HERE.get(screen)

    def watermark(self, zone: tzinfo | None) -> list[Part]:
        """How many clocks there are, and the one that the verdict is about."""
        clocks, worst = self._snapshot.clocks, worst_clock(self._snapshot)
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
