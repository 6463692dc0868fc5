"""The settings of a run, frozen and versioned, and changes of them while it runs."""

from typing import Literal

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import force_setattr, replace

StrategyName = Literal[
    "bounded", "monotonous", "bounded-legacy", "punctuated", "smoothed", "source", "spark", "none", "custom"
]
TUNABLE: frozenset[StrategyName] = frozenset({"bounded", "bounded-legacy", "smoothed", "spark"})
"""The strategies with a lateness, and therefore a what-if."""


class SettingsChange(Struct, frozen=True):
    """A change of settings while running: its version, the last batch before it, when (epoch ms) and by whom."""

    version: int
    batch: int | None
    wall_ms: int
    who: str
    lateness_ms: int | UnsetType | None = UNSET
    idle_after_ms: int | UnsetType | None = UNSET
    now_ms: int | None = None
    """Processing time."""
    emitted_ms: int | None = None
    """Processing time of the first emit with the change; None: not yet."""
    moved_ms: int | None = None
    """How far the watermark advanced at that emit; None: there was no watermark before."""


class Tumbling(Struct, frozen=True, tag_field="type", tag="tumbling"):
    """Windows of `size_ms` side by side, starts at `offset_ms` modulo the size."""

    size_ms: int
    offset_ms: int = 0
    slide_ms: int = 0
    """The distance between two starts: always the size."""

    def __post_init__(self) -> None:
        force_setattr(self, "slide_ms", self.size_ms)


class Sliding(Struct, frozen=True, tag_field="type", tag="sliding"):
    """Windows of `size_ms`, one starting every `slide_ms`; with slide > size there are gaps between them."""

    size_ms: int
    slide_ms: int
    offset_ms: int = 0


MAX_CHANNELS = 20_000
"""Upper bound of `max_channels`: a snapshot with names of 256 characters still fits into a line of the stream."""
MAX_WINDOWS_PER_RECORD = 1_000
"""Sliding windows per record, at most: more are refused, since each window is kept, counted and saved."""


class Session(Struct, frozen=True, tag_field="type", tag="session"):
    """Windows that end `gap_ms` after their last record and merge when they touch."""

    gap_ms: int


WindowSpec = Tumbling | Sliding | Session


class Settings(Struct, frozen=True, kw_only=True):
    """Everything that decides a result; all durations in ms, `None`: off, or the strategy has no such setting.

    For an attached query, `lateness_ms` None means "not known".
    """

    strategy: StrategyName = "bounded"
    lateness_ms: int | None = 1_800_000
    idle_after_ms: int | None = 7_200_000
    allowed_lateness_ms: int = 0
    future_guard_ms: int | None = 300_000
    emit_every_ms: int = 200
    subtasks: int | None = None
    window: WindowSpec | None = Tumbling(3_600_000)
    """The windows; None: not known (an attached query)."""
    version: int = 1
    max_channels: int = 10_000
    """Channels kept separately, at most; others, in the order of semantics section 6, share the channel `other`."""
    smooth: int = 100
    """How many timestamps the strategy `smoothed` averages."""
    marker: str | None = None
    """The SQL condition that makes a record a marker (`punctuated`)."""
    watermark_column: str | None = None
    """The column that carries the source's own watermarks (`source`)."""
    factory: str | None = None
    """`module:factory` of a user's generator (`custom`)."""

    @property
    def tunable(self) -> bool:
        """Whether the strategy has a lateness that can be tuned."""
        return self.strategy in TUNABLE

    @property
    def one_clock(self) -> bool:
        """Whether the fastest channel sets the watermark: Spark's rule."""
        return self.strategy == "spark"

    @property
    def has_valve(self) -> bool:
        """Whether the watermark is the minimum over the channels, so that one of them can hold it back."""
        return not self.one_clock and self.strategy != "none"

    @property
    def late_at_watermark(self) -> bool:
        """Whether a record at the watermark itself is late: Spark's rule. Flink's watermark is 1 ms below it."""
        return self.strategy == "spark"

    @property
    def late_alone(self) -> bool:
        """Whether a record is late by its own session, before it could merge: Spark's rule."""
        return self.strategy == "spark" and isinstance(self.window, Session)

    @property
    def spec(self) -> WindowSpec:
        """The windows of an own run, which are always known."""
        assert self.window is not None
        return self.window


MAX_CHANGES = 50
"""Changes kept, at most."""


def changed(settings: Settings, change: SettingsChange) -> Settings:
    """The settings with `change`; ValueError if the strategy has no such setting or the value is out of range."""
    lateness_ms, idle_after_ms = change.lateness_ms, change.idle_after_ms
    if any(isinstance(value, int) and value < 0 for value in (lateness_ms, idle_after_ms)):
        raise ValueError("a duration cannot be negative")
    if idle_after_ms == 0:
        raise ValueError("an idle timeout must be longer than 0; 'off' means no idle timeout")
    if isinstance(lateness_ms, int):
        if not settings.tunable:
            raise ValueError(f"the strategy '{settings.strategy}' has no lateness")
        settings = replace(settings, lateness_ms=lateness_ms)
    if not isinstance(idle_after_ms, UnsetType):
        if settings.strategy == "spark":
            raise ValueError("Spark's clock has no idle timeout")
        settings = replace(settings, idle_after_ms=idle_after_ms)
    return settings


def emitted(changes: list[SettingsChange], now: int, moved_ms: int | None) -> list[SettingsChange]:
    """The changes after an emit at `now` that moved the watermark by `moved_ms` (None: there was none before)."""
    return [
        change if change.emitted_ms is not None else replace(change, emitted_ms=now, moved_ms=moved_ms)
        for change in changes
    ]
