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
from ...engine.snapshot import ChannelView, Clock, Snapshot
from ...engine.snapshot.kinds.kafka_streams import badness
from ...engine.snapshot.watermark import WORST_FIRST
from ...engine.text import formatting as f
from .spans import Span
from .verdict_words import STYLES, WORDS

_MAX_LINES = 20


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
