"""The autopilot (semantics 11.5): when to evaluate, and which lateness to set. All times are processing time (ms)."""

from msgspec import Struct
from msgspec.structs import replace

from ..lateness import recommended_lateness_ms
from ..settings import AutoLateness, Settings
from ..snapshot import AutoView, SettingsChange
from .recent import Sample

LEAST_RECORDS = 1_000
AUTO = "auto"
"""The `who` of a change by the autopilot."""


class Decision(Struct, frozen=True):
    """The lateness to set (ms), and the share of the horizon's records that would have been late under it."""

    lateness_ms: int
    share: float

    def change_of(self, settings: Settings, batch: int | None) -> tuple[Settings, SettingsChange]:
        """The settings with the decided lateness, and the change, after `batch`, that sets it."""
        change = SettingsChange(settings.version + 1, batch, None, AUTO, lateness_ms=self.lateness_ms, share=self.share)
        return replace(settings, lateness_ms=self.lateness_ms), change


class Autopilot(Struct):
    """The state of the autopilot between evaluations."""

    next_ms: int | None = None
    """The next due time; None before the first emit."""
    suspended_until_ms: int | None = None
    suspend_at_start: bool = False
    """It was suspended before processing time was known."""
    began_ms: int | None = None
    """Since when no evaluation was skipped."""
    evaluations: list[tuple[int, int]] = []
    """Time and recommended lateness of the evaluations of the last horizon that recommended more than every later one,
    oldest first: the first is the greatest.
    """

    def is_due(self, now: int, auto: AutoLateness) -> bool:
        """Whether an evaluation is due at `now`, the first emit at or past a due time; uses up that due time."""
        if self.suspend_at_start:
            self.suspend(now, auto.horizon_ms)
        if self.next_ms is None:
            self.next_ms = now + auto.every_ms
        if now < self.next_ms:
            return False
        self.next_ms += ((now - self.next_ms) // auto.every_ms + 1) * auto.every_ms
        if self.suspended_until_ms is not None and now < self.suspended_until_ms:
            return False
        self.suspended_until_ms = None
        return True

    def suspend(self, now: int | None, horizon_ms: int) -> None:
        """Suspend for one horizon after a manual change; `now` None: from the first emit on."""
        self.forget()
        self.suspend_at_start = now is None
        self.suspended_until_ms = None if now is None else now + horizon_ms

    def forget(self) -> None:
        """Forget earlier evaluations: lowering the lateness again needs a full horizon of them."""
        self.began_ms, self.evaluations = None, []

    def evaluate(
        self, now: int, auto: AutoLateness, edges: list[int], sample: Sample, lateness_ms: int
    ) -> Decision | None:
        """The lateness to set at a due time instead of `lateness_ms`; None: no change."""
        assert auto.target is not None
        if sample.records < LEAST_RECORDS:
            self.forget()
            return None
        wanted = recommended_between(edges, sample, auto)
        if self.began_ms is None:
            self.began_ms = now
        since = now - auto.horizon_ms
        self.evaluations = [
            *((time, edge) for time, edge in self.evaluations if time > since and edge > wanted),
            (now, wanted),
        ]
        greatest = self.evaluations[0][1]
        if wanted > lateness_ms:
            chosen = wanted
        elif greatest < lateness_ms and self.began_ms <= since:
            chosen = greatest
        else:
            return None
        return Decision(chosen, sample.late[edges.index(chosen)] / sample.records)


def recommended_between(edges: list[int], sample: Sample, auto: AutoLateness) -> int:
    """The smallest edge (ms) between the bounds that keeps the target, else the greatest."""
    assert auto.target is not None
    allowed = [
        (edge, late) for edge, late in zip(edges, sample.late, strict=True) if auto.min_ms <= edge <= auto.max_ms
    ]
    within, late = [edge for edge, _ in allowed], [late for _, late in allowed]
    found = recommended_lateness_ms(within, late, sample.records, auto.target)
    return within[-1] if found is None else found


def with_target(settings: Settings, target: float | None) -> Settings:
    """Settings with the autopilot on or off (None); ValueError for a strategy without a lateness, or a bad target."""
    if not settings.tunable:
        raise ValueError(f"the strategy '{settings.strategy}' has no lateness")
    if target is not None and not 0 < target < 1:
        raise ValueError(f"the share of records on time must be above 0 and below 1, not {target}")
    return replace(settings, auto=replace(settings.auto or AutoLateness(), target=target))


def view_of(autopilot: Autopilot, settings: Settings, now: int | None) -> AutoView | None:
    """The autopilot as a snapshot at processing time `now` (ms) shows it; None: off."""
    auto = settings.auto
    if auto is None or auto.target is None:
        return None
    until = autopilot.suspended_until_ms
    suspended = until is not None and (now is None or now < until)
    return AutoView(auto.target, auto.horizon_ms, autopilot.next_ms, until if suspended else None)
