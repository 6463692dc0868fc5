"""The splits of one source instance combined into one watermark (Flink's `WatermarkOutputMultiplexer`)."""

from msgspec import Struct

from .times import MIN


class Split(Struct):
    """The last output of one split: its watermark (ms) and whether it is idle."""

    watermark: int = MIN
    idle: bool = False
    since: int = 0
    """When its watermark last grew (processing time, ms); before that, when it was registered."""


class Combined(Struct, frozen=True):
    """The result of recombining: the watermark if it grew (ms, else None), and whether every split is idle."""

    watermark: int | None
    idle: bool


NOTHING = Combined(None, False)


class Multiplexer(Struct):
    """The minimum over the splits that are not idle (if all are idle: the maximum), emitted only when it grows."""

    splits: dict[int, Split] = {}
    combined: int = MIN

    def register(self, split: int, now: int = 0) -> None:
        """Add a split; ValueError for a known one, which changes nothing."""
        if split in self.splits:
            raise ValueError(f"split {split} is registered already")
        self.splits[split] = Split(since=now)

    def unregister(self, split: int) -> bool:
        """Remove a split from the next update on; False if it is unknown."""
        return self.splits.pop(split, None) is not None

    def watermark(self, split: int, watermark: int, now: int = 0) -> Combined:
        """Take a watermark sent at once: recombines if it raises its split and is above the combined watermark."""
        raised = self.defer_watermark(split, watermark, now)
        return self.update() if raised and watermark > self.combined else NOTHING

    def status(self, split: int, *, idle: bool) -> Combined:
        """Take a status sent at once: always recombines."""
        self.defer_status(split, idle=idle)
        return self.update()

    def defer_watermark(self, split: int, watermark: int, now: int = 0) -> bool:
        """Take a watermark for the next update; returns whether it raises its split's own."""
        state = self.splits[split]
        state.idle = False
        raised = watermark > state.watermark
        if raised:
            state.watermark = watermark
            state.since = now
        return raised

    def defer_status(self, split: int, *, idle: bool) -> None:
        """Take a status for the next update."""
        self.splits[split].idle = idle

    def holder(self) -> int | None:
        """The split that sets the minimum; ties: the one unchanged for longest, then order."""
        # If the other splits were removed, all that remain may be idle until the next update.
        candidates = {number: split for number, split in self.splits.items() if not split.idle} or self.splits
        order = [(split.watermark, split.since, number) for number, split in candidates.items()]
        return min(order)[2] if order else None

    def update(self) -> Combined:
        """Recombine (the periodic emit). Without a split nothing is emitted."""
        if not self.splits:
            return NOTHING
        active = [split.watermark for split in self.splits.values() if not split.idle]
        level = min(active) if active else max(split.watermark for split in self.splits.values())
        grew = level > self.combined
        if grew:
            self.combined = level
        return Combined(level if grew else None, not active)


class Emission(Struct, frozen=True):
    """What leaves the output: a watermark (ms) that grew, or a change of status."""

    watermark: int | None = None
    idle: bool | None = None


class WatermarkOutput(Struct):
    """The filter behind a generator or multiplexer: watermarks that grow, statuses that change.

    With `wakes_on_growth` it leaves idle only with a watermark that grows (Flink 2.3.0, FLINK-40504); else at once.
    """

    wakes_on_growth: bool = False
    last: int = MIN
    idle: bool = False

    def watermark(self, watermark: int) -> tuple[Emission, ...]:
        """Pass a watermark if it grows; it also ends idleness."""
        grew = watermark > self.last
        woken = () if self.wakes_on_growth and not grew else self._set_idle(False)
        if not grew:
            return woken
        self.last = watermark
        return (*woken, Emission(watermark=watermark))

    def mark_idle(self) -> tuple[Emission, ...]:
        """Pass the status IDLE if it is new."""
        return self._set_idle(True)

    def mark_active(self) -> tuple[Emission, ...]:
        """Pass the status ACTIVE if it is new."""
        return () if self.wakes_on_growth else self._set_idle(False)

    def _set_idle(self, idle: bool) -> tuple[Emission, ...]:
        if self.idle == idle:
            return ()
        self.idle = idle
        return (Emission(idle=idle),)
