"""A whole run, record at a time: batches, ticks, changes, the end; and another setting, by running that."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import msgspec
from wmtop.engine.watermarks.settings import Session, Settings
from wmtop.engine.watermarks.times import FIRST_USABLE_MS, LAST_USABLE_MS, MAX, MIN

from .clock import Clock
from .generators import clamp
from .ops import NO_CHANNEL, Batch, Finished, Gone, Known, Op, Paused, Row, SetIdle, SetLateness, Tick, in_batches
from .result import ChannelResult, Counts, Firing, Result
from .windows import Window, WindowOperator, assign, last_window

LateKey = tuple[str, int | None, int | None]
"""Channel, start and end of the last window; a late record in a gap between windows has none."""


class LateRow(NamedTuple):
    """A dropped record: the watermark that dropped it, the end of its last window (sessions: of the dropped one)."""

    batch: int
    row: Row
    watermark: int
    end: int | None


class Reference:
    """The state of one run; feed it ops, then ask for the result."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock = self._new_clock(settings.lateness_ms or 0)
        self.shadow = self._new_clock(0)
        self.windows = WindowOperator(settings.window, settings.allowed_lateness_ms, alone=settings.strategy == "spark")
        self.batch_id = -1
        self.totals = Counts()
        self.by_channel: dict[str, Counts] = {}
        self.levels: list[int] = []
        self.firings: list[list[Firing]] = []
        self.fired: set[tuple[int, int]] = set()
        self.late_firings = 0
        self.w0: list[tuple[int, int]] = []
        self.own_late: Counter[int] = Counter()
        self.late: list[LateRow] = []
        self.late_of_batch: list[Row] = []
        self.closings: list[tuple[int, int]] = []
        self.ended: Result | None = None

    def _new_clock(self, lateness: int) -> Clock:
        s = self.settings
        return Clock(
            s.strategy, lateness, s.idle_after_ms, smooth=s.smooth, subtasks=s.subtasks, emit_every=s.emit_every_ms
        )

    def apply(self, op: Op) -> None:
        lines: list[Firing] = []
        if self.ended is not None:
            pass  # the last channel has finished: nothing happens any more
        elif isinstance(op, Batch):
            lines = self._batch(op)
        elif isinstance(op, Tick):
            self.clock.emit(op.now)
            self.shadow.emit(op.now)
            lines = self._advance(op.now)
        elif isinstance(op, SetLateness):
            self.clock.lateness = op.lateness
        elif isinstance(op, SetIdle):
            self.clock.idle_after = self.shadow.idle_after = op.idle_after
        elif isinstance(op, Known):
            for name in op.names:
                self.by_channel.setdefault(name, Counts())
            for clock in (self.clock, self.shadow):
                clock.know(self.batch_id, op.names, op.now)
        elif isinstance(op, Paused):
            for clock in (self.clock, self.shadow):
                clock.paused(op.duration, op.names)
        elif isinstance(op, Finished | Gone):
            lines = self._leave(op)
        else:
            lines = self._end()
        self.firings.append(lines)
        self.levels.append(MAX if self.ended else self.clock.level)

    def _leave(self, op: Finished | Gone) -> list[Firing]:
        """Channels finish or are removed; with the last that has not finished the stream ends."""
        clocks = (self.clock, self.shadow)
        names, before = set(op.names), self.clock.unfinished
        gone = names if isinstance(op, Gone) else set[str]()
        finished = self.clock.channels.keys() - gone - (before if isinstance(op, Gone) else before - names)
        if before and not before - names and finished:
            lines = self._end()
            for clock in clocks:
                for name in gone & clock.channels.keys():
                    clock.removed.append(clock.channels.pop(name))
            return lines
        for clock in clocks:
            clock.finish(op.names) if isinstance(op, Finished) else clock.remove(op.names)
        return self._advance(op.now)

    def _end(self) -> list[Firing]:
        self.ended = self.result()
        return [self._fire_line(w, None) for w in self.windows.advance(MAX)]

    def _batch(self, op: Batch) -> list[Firing]:
        self.batch_id += 1
        usable = [row for row in op.rows if self._usable(row, op)]
        for row in op.rows:
            if row not in usable:
                self._count(row, "malformed")
        late: Counter[LateKey] = Counter()
        late_fired: Counter[tuple[int, int]] = Counter()
        for row in self._window_order(usable):
            self._into_windows(row, late, late_fired)
        for row in usable:
            self._into_clocks(row, op)
        merged = self._merged(late)
        self._note_late(merged)
        lines = [self._late_line(*at, n) for at, n in merged.items()] + self._late_fires(late_fired)
        self.clock.after_batch(op.now)
        self.shadow.after_batch(op.now)
        return lines + self._advance(op.now)

    def _note_late(self, merged: Counter[LateKey]) -> None:
        for row in self.late_of_batch:
            own = assign(self.settings.window, _ts(row))
            end = own[0][1] if own else None
            if isinstance(self.settings.window, Session):
                (end,) = {e for _, s, e in merged if s is not None and e is not None and s <= _ts(row) < e}
            self.late.append(LateRow(self.batch_id, row, self.windows.watermark, end))
        self.late_of_batch = []

    def _usable(self, row: Row, op: Batch) -> bool:
        if row.ts is None or (op.own_arrival and row.arrival is None):
            return False
        return FIRST_USABLE_MS <= row.ts <= LAST_USABLE_MS

    def _window_order(self, usable: list[Row]) -> list[Row]:
        """Section 6: a batch's sessions are as if its records came in descending event time."""
        if isinstance(self.settings.window, Session):
            return sorted(usable, key=lambda row: -_ts(row))
        return usable

    def _into_windows(self, row: Row, late: Counter[LateKey], late_fired: Counter[tuple[int, int]]) -> None:
        ts, channel, spec = _ts(row), _name(row), self.settings.window
        self._count(row, "records")
        if ts <= self.windows.watermark:
            self._count(row, "behind_watermark")
        placed = self.windows.record(ts, channel)
        if placed.late:
            self._count(row, "late")
            self.late_of_batch.append(row)
            start, end = (assign(spec, ts) or [(None, None)])[0]
            late[channel, start, end] += 1
        elif placed.no_window:
            self._count(row, "no_window")
        for window in placed.fired:
            self.late_firings += 1
            late_fired[window.start, window.end] += 1
        if self.shadow.window_level != MIN:
            end = last_window(spec, ts)[1]
            self.own_late[self.shadow.window_level - clamp(end - 1) - self.settings.allowed_lateness_ms] += 1

    def _into_clocks(self, row: Row, op: Batch) -> None:
        ts, guard = _ts(row), self.settings.future_guard_ms
        arrival = row.arrival if op.own_arrival and row.arrival is not None else op.now
        if guard is not None and ts - arrival > guard:
            self._count(row, "future")
            return
        self.clock.on_event(self.batch_id, _name(row), ts, row.extra)
        self.shadow.on_event(self.batch_id, _name(row), ts, row.extra)

    def _count(self, row: Row, what: str) -> None:
        for counts in (self.totals, self.by_channel.setdefault(_name(row), Counts())):
            setattr(counts, what, getattr(counts, what) + 1)

    def _advance(self, now: int) -> list[Firing]:
        if self.shadow.window_level > (self.w0[-1][1] if self.w0 else MIN):
            self.w0.append((now, self.shadow.window_level))
        level = self.clock.window_level
        due = self.windows.advance(level)
        self.closings += [(now, window.end) for window in due]
        return [self._fire_line(window, level) for window in due]

    def _fire_line(self, window: Window, level: int | None) -> Firing:
        self.fired.add((window.start, window.end))
        return self._line("fire", None, window.start, window.end, window.count, 1, level, level is None)

    def _merged(self, late: Counter[LateKey]) -> Counter[LateKey]:
        """Late sessions of one batch that touch are one session, whatever their channels."""
        if not isinstance(self.settings.window, Session):
            return late
        ranges: list[list[int]] = []
        for start, end in sorted((start, end) for _, start, end in late if start is not None and end is not None):
            if ranges and start <= ranges[-1][1]:
                ranges[-1][1] = max(end, ranges[-1][1])
            else:
                ranges.append([start, end])
        merged: Counter[LateKey] = Counter()
        for (channel, at, _), records in late.items():
            ((start, end),) = [(a, b) for a, b in ranges if at is not None and a <= at < b]
            merged[channel, start, end] += records
        return merged

    def _late_line(self, channel: str, start: int | None, end: int | None, records: int) -> Firing:
        return self._line("late", channel, start, end, records, 0, self.windows.watermark, False)

    def _late_fires(self, late_fired: Counter[tuple[int, int]]) -> list[Firing]:
        """One line a window; what fired before it was merged in the same batch counts for what it became."""
        lines: list[Firing] = []
        for window in self.windows.live.values():
            n = sum(k for (start, end), k in late_fired.items() if window.start <= start and end <= window.end)
            if not isinstance(self.settings.window, Session):
                n = late_fired[window.start, window.end]
            if n:
                self.fired.add((window.start, window.end))
                lines.append(
                    self._line(
                        "late_fire", None, window.start, window.end, window.count, n, self.windows.watermark, False
                    )
                )
        return lines

    def _line(
        self,
        kind: str,
        channel: str | None,
        start: int | None,
        end: int | None,
        records: int,
        firings: int,
        watermark: int | None,
        ended: bool,
    ) -> Firing:
        return {
            "kind": kind, "batch": self.batch_id, "channel": channel, "start_ms": start, "end_ms": end,
            "records": records, "firings": firings, "watermark_ms": watermark, "ended": ended,
        }  # fmt: skip

    def result(self) -> Result:
        channels = {
            c.name: ChannelResult(c.watermark, c.generator.greatest, self.clock.state(c.name), c.flaps)
            for c in self.clock.in_order()
        }
        if self.ended is not None:
            return replace(
                self.ended, levels=self.levels, firings=self.firings, fired=len(self.fired), open=[],
            )  # fmt: skip
        return Result(
            totals=self.totals, by_channel=self.by_channel, channels=channels, level=self.clock.level,
            levels=self.levels, holder=self.clock.holder(),
            flaps=sum(c.flaps for c in [*self.clock.channels.values(), *self.clock.removed]),
            firings=self.firings, fired=len(self.fired),
            late_firings=self.late_firings, open=[(w.start, w.end, w.count) for w in self.windows.open()],
            w0=self.w0, own_late=self.own_late, closings=self.closings,
        )  # fmt: skip


def _ts(row: Row) -> int:
    assert row.ts is not None
    return row.ts


def _name(row: Row) -> str:
    return NO_CHANNEL if row.channel is None else row.channel


def run_ops(ops: Iterable[Op], settings: Settings) -> Result:
    """A run of explicit ops."""
    reference = Reference(settings)
    for op in ops:
        reference.apply(op)
    return reference.result()


def run(rows: Sequence[Row], settings: Settings, batch_rows: int) -> Result:
    """A reproducible run: a pure function of rows and settings."""
    return run_ops(in_batches(rows, batch_rows), settings)


def at_lateness(ops: Sequence[Op], settings: Settings, lateness: int) -> Result:
    """The same records and ticks, really run with another lateness from the start to the end."""
    kept = [op for op in ops if not isinstance(op, SetLateness)]
    return run_ops(kept, msgspec.structs.replace(settings, lateness_ms=lateness))


def at_idle_after(ops: Sequence[Op], settings: Settings, idle_after: int | None) -> Result:
    """The same records and ticks, really run with another idle timeout from the start to the end."""
    kept = [op for op in ops if not isinstance(op, SetIdle)]
    return run_ops(kept, msgspec.structs.replace(settings, idle_after_ms=idle_after))
