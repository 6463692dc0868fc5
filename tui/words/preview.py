"""What another lateness or idle timeout would do, and what an applied one did: numbers and words. Pure."""

from bisect import bisect_left
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from ...engine.snapshot import RecentRow, SettingsChange, Snapshot, WhatIf
from ...engine.text import formatting as f
from ...engine.text.formatting import horizon_words, name
from ...engine.verdict.preview import AppliedNow, ProposedSetting
from ...engine.watermarks.lateness import HOUR
from ...engine.watermarks.settings import StrategyName
from .spans import Part, part
from .texts import DID_NOT_MOVE, SAME_TIME, SHARE_UNKNOWN


class Range(Struct, frozen=True):
    """A value between two known ones; both are the same if it is exact."""

    low: float
    high: float


class LatenessPreview(Struct, frozen=True):
    """The effect of lateness `lateness_ms`; None: not known."""

    lateness_ms: int
    level_ms: int | None
    late: Range | None
    share: Range | None
    delay_change_ms: Range | None
    """How much later (or, below 0, earlier) results would come than they do now."""
    upper_bound: bool


class IdlePreview(Struct, frozen=True):
    """The effect of idle timeout `idle_after_ms` (None: off)."""

    idle_after_ms: int | None
    level_ms: int | None
    holder: str | None
    flaps: int | None
    late: int | None
    share: float | None
    about: bool
    """Whether the late count is not exact."""


_STEPS_MS = (
    *(f.SECOND * number for number in (0, 1, 2, 5, 10, 20, 30, 45)),
    *(f.MINUTE * number for number in (1, 2, 5, 10, 15, 30)),
    *(f.HOUR * number for number in (1, 2, 6, 12, 24)),
)
"""Common values of lateness and idle timeout (ms)."""
Preview = LatenessPreview | IdlePreview


UNTUNABLE: dict[StrategyName, str] = {
    "monotonous": "monotonous: records are taken to be in order, so there is no lateness to tune",
    "punctuated": "punctuated: marker records set the watermark, so there is no lateness to tune",
    "source": "source: the source sends its own watermarks, so there is no lateness to tune",
    "none": "none: there is no watermark before the end of the stream, so there is no lateness to tune",
    "custom": "custom: the job's own generator decides, so there is no lateness to tune from here",
}
"""Why a strategy that is not in `TUNABLE` has no lateness to tune, in one line."""


def step_lateness(snapshot: Snapshot, lateness_ms: int, direction: int) -> int | None:
    """The next lateness (ms) above (1) or below (-1) `lateness_ms` for which the answer is exact; None at the end."""
    edges = [row.lateness_ms for row in snapshot.whatif or ()] or _plain_steps(snapshot)
    if direction > 0:
        return next((edge for edge in edges if edge > lateness_ms), None)
    return next((edge for edge in reversed(edges) if edge < lateness_ms), None)


def step_idle(snapshot: Snapshot, idle_after_ms: int | None, direction: int) -> tuple[bool, int | None]:
    """The next idle timeout on the ladder (off is the longest), and whether there is one."""
    ladder = sorted((row.idle_after_ms for row in snapshot.whatif_idle or ()), key=_length)
    if not ladder:
        ladder = [step for step in _plain_steps(snapshot) if step]
        idle_after_ms = idle_after_ms or 0
    if direction < 0:
        ladder.reverse()
    here = _length(idle_after_ms)
    beyond = [step for step in ladder if (_length(step) - here) * direction > 0]
    return (True, beyond[0]) if beyond else (False, None)


def lateness(snapshot: Snapshot, lateness_ms: int) -> LatenessPreview:
    """The picture had lateness been `lateness_ms` from the start: exact at an edge, a range between two."""
    rows = snapshot.whatif or []
    zero = snapshot.level.at_zero_lateness_ms
    records = snapshot.totals.records
    late = late_at(rows, lateness_ms)
    then, now = _delay(rows, lateness_ms), _delay(rows, snapshot.settings.lateness_ms)
    return LatenessPreview(
        lateness_ms=lateness_ms,
        level_ms=None if zero is None else zero - lateness_ms,
        late=late,
        share=Range(late.low / records, late.high / records) if late and records else None,
        delay_change_ms=Range(then.low - now.high, then.high - now.low) if then and now else None,
        upper_bound=snapshot.whatif_upper_bound,
    )


def _plain_steps(snapshot: Snapshot) -> Sequence[int]:
    """The values for the keys if there is no what-if, but a line for the job."""
    return _STEPS_MS if snapshot.target.previews_any_value else ()


def idle(snapshot: Snapshot, idle_after_ms: int | None) -> IdlePreview | None:
    """The effect of another idle timeout; None if the ladder does not have it."""
    row = next((row for row in snapshot.whatif_idle or () if row.idle_after_ms == idle_after_ms), None)
    if row is None:
        plain = not snapshot.whatif_idle and idle_after_ms in _plain_steps(snapshot)
        return IdlePreview(idle_after_ms, None, None, None, None, None, about=False) if plain else None
    records = snapshot.totals.records
    return IdlePreview(
        idle_after_ms=idle_after_ms,
        level_ms=row.watermark_ms,
        holder=row.holder,
        flaps=row.flaps,
        late=row.late,
        share=f.ratio(row.late, records),
        about=row.late_error > 0,
    )


def _length(idle_after_ms: int | None) -> float:
    return float("inf") if idle_after_ms is None else idle_after_ms


def late_at(rows: Sequence[WhatIf | RecentRow], lateness_ms: int) -> Range | None:
    """Late records at `lateness_ms`: between the counts at the edges around it; below the first edge not known."""
    if not rows or lateness_ms < rows[0].lateness_ms:
        return None
    below, at = _around(rows, lateness_ms)
    return Range(0 if at is None else rows[at].late, rows[below].late)


def _around(rows: Sequence[WhatIf | RecentRow], lateness_ms: int) -> tuple[int, int | None]:
    """The places of the edges at or below and at or above a lateness (ms); None: it is beyond the last."""
    at = bisect_left(rows, lateness_ms, key=lambda row: row.lateness_ms)
    if at == len(rows):
        return at - 1, None
    return at if rows[at].lateness_ms == lateness_ms else max(at - 1, 0), at


def _delay(rows: list[WhatIf], lateness_ms: int | None) -> Range | None:
    if lateness_ms is None:
        return None
    below, at = _around(rows, lateness_ms)
    delays = () if at is None else (rows[below].delay_ms, rows[at].delay_ms)
    known = [delay for delay in delays if delay is not None]
    return Range(min(known), max(known)) if len(known) == 2 else None


def preview_title(preview: Preview) -> str:
    """The meaning of a preview's picture."""
    if isinstance(preview, LatenessPreview):
        return f"with lateness {f.setting(preview.lateness_ms)} from the start"
    return f"with idle timeout {f.setting(preview.idle_after_ms)} from the start"


def share_range(preview: LatenessPreview) -> str | None:
    """The previewed late share: exact, a range between two edges, `≤` where it is an upper bound."""
    if preview.share is None:
        return None
    text = f.span(f.share(preview.share.low), f.share(preview.share.high))
    return "≤ " + f.share(preview.share.high) if preview.upper_bound else text


def delay_change(preview: LatenessPreview) -> str | None:
    """How much later results would come: `15m later`, `2m–5m sooner`, `at the same time`."""
    change = preview.delay_change_ms
    if change is None:
        return None
    if round(change.low) == 0 == round(change.high):
        return SAME_TIME
    if change.low < 0 < change.high:
        return f"{f.duration(-change.low)} sooner to {f.duration(change.high)} later"
    low, high = sorted((abs(change.low), abs(change.high)))
    return f"{f.span(f.duration(low), f.duration(high))} {'later' if change.high > 0 else 'sooner'}"


def now_parts(snapshot: Snapshot, now: AppliedNow | None, *, can_apply: bool) -> list[Part]:
    """The effect of Enter at the next emit, or for an attached job (not `can_apply`) of a restart with the setting."""
    head = part((" now: " if can_apply else " after a restart: ", "dim"))
    if now is None:
        return [head, part((f.ELSEWHERE, "preview"), gap="")]
    level, reached = snapshot.level.watermark_ms, now.watermark_ms
    moved = 0 if level is None or reached is None else reached - level
    parts = [head, part((f.signed(moved) if moved else "the watermark does not move", "preview"), gap="")]
    if now.frozen_ms:
        parts.append(part((f"frozen for {f.duration(now.frozen_ms)} of event time", "stale"), rank=1, gap=", "))
    if now.holder is not None:
        parts.append(part((f"{'then ' * bool(moved)}held back by {name(now.holder)}", "preview"), rank=2, gap=", "))
    fires = f"{now.fires:,}{'+' * now.fires_more} window{'s' * (now.fires != 1)} fire{'s' * (now.fires == 1)}"
    parts.append(part((fires if now.fires else "no window fires", "preview"), rank=3, gap=", "))
    return parts


def from_start_parts(snapshot: Snapshot, preview: Preview) -> list[Part]:
    """The effect of the setting, had it been in force from the start."""
    parts = [part((" from the start: ", "dim"))]
    level = snapshot.level.watermark_ms
    moved = None if preview.level_ms is None or level is None else preview.level_ms - level
    parts.append(part((f.signed(moved), "preview"), gap=""))
    if isinstance(preview, LatenessPreview):
        late = share_range(preview)
        parts.append(part((f"{late} late" if late else SHARE_UNKNOWN, "preview"), gap=", "))
        if (recent := _recent_share(snapshot, preview)) is not None:
            parts.append(part((f" ({recent})", "preview"), rank=1, gap=""))
        if (delay := delay_change(preview)) is not None:
            parts.append(part((f"results {delay}", "preview"), rank=1, gap=", "))
        return parts
    parts.append(part((f"{'≈ ' * preview.about}{f.share(preview.share)} late", "preview"), gap=", "))
    if preview.holder is not None:
        parts.append(part((f"held back by {name(preview.holder)}", "preview"), rank=1, gap=", "))
    if preview.flaps is not None:
        parts.append(part((f.counted(preview.flaps, "idle change"), "preview"), rank=2, gap=", "))
    return parts


def _recent_share(snapshot: Snapshot, preview: LatenessPreview) -> str | None:
    """The late share of the last hour, if that is not the whole run: `last 1h: 0.4 %`."""
    recent = next((part for part in snapshot.whatif_recent or () if part.horizon_ms == HOUR), None)
    if recent is None or not recent.records or recent.records == snapshot.totals.records:
        return None
    late = late_at(recent.rows, preview.lateness_ms)
    if late is None:
        return None
    low, high = f.share(late.low / recent.records), f.share(late.high / recent.records)
    return f"{horizon_words(HOUR)}: {'≤ ' + high if preview.upper_bound else f.span(low, high)}"


SHOWN_MS = 10_000
"""How long (ms of wall clock) the effect of an applied change is shown."""


def setting_in_force(snapshot: Snapshot, proposed: ProposedSetting) -> ProposedSetting:
    """The setting that the proposed one would replace."""
    settings = snapshot.settings
    return ProposedSetting(proposed.idle, settings.idle_after_ms if proposed.idle else settings.lateness_ms)


class Applied(Struct, frozen=True):
    """A change sent to the engine; it is shown from the first snapshot after the emit that applied it."""

    proposed: ProposedSetting
    before: ProposedSetting
    version: int
    """The version of the settings in force when it was sent."""
    moved_ms: int | None = None
    """How far the watermark advanced at the emit that applied it; None: there was no watermark before."""
    undoes: bool = False
    """The change takes back the one before."""
    since_ms: int | None = None
    """When (wall clock, epoch ms) that snapshot was taken."""

    def in_force(self, snapshot: Snapshot) -> bool:
        """Whether the engine has the setting now."""
        return self.proposed == setting_in_force(snapshot, self.proposed)

    def seen(self, snapshot: Snapshot) -> "Applied":
        """The change with its effect, once a snapshot has it."""
        if self.since_ms is not None or not self.in_force(snapshot):
            return self
        made = next((change for change in reversed(snapshot.own.changes) if self._is(change)), None)
        if made is None or made.emitted_ms is None:
            return self
        return replace(self, moved_ms=made.moved_ms, since_ms=snapshot.wall_ms)

    def _is(self, change: SettingsChange) -> bool:
        value = change.idle_after_ms if self.proposed.idle else change.lateness_ms
        return change.version > self.version and value == self.proposed.value_ms

    def parts(self, snapshot: Snapshot) -> Sequence[Part]:
        """Its effect, for a line, as long as it is recent; else nothing."""
        if self.since_ms is None or not self.in_force(snapshot) or snapshot.wall_ms is None:
            return ()
        if snapshot.wall_ms - self.since_ms >= SHOWN_MS:
            return ()
        moved_ms = self.moved_ms
        moved = "" if moved_ms is None else f": {f.signed(moved_ms)}" if moved_ms else f": {DID_NOT_MOVE}"
        head, key = (" undone, back to ", " redoes") if self.undoes else (" applied ", " undoes")
        return [
            part((head, "dim"), (self.proposed.words(), "strong"), (moved, "preview")),
            part(("u", "key"), (key, "dim"), gap=" · "),
        ]
