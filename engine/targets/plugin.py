"""Kinds of target by plug-ins: how they are found and guarded, and the part of a snapshot that every kind has."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from msgspec.structs import replace

from ..snapshot import UNCOUNTED, Blocker, Cause, ChannelView, Holder, Level, Other, Snapshot, SourceView, Windows
from ..snapshot.blockers import blockers_of
from ..snapshot.continuity import changed_ms, held_since
from ..system.errors import RunError, UsageError, first_line, one_line
from ..verdict.evidence import Picture
from ..watermarks.counts import NOTHING_COUNTED
from ..watermarks.operator_clock import steps_below
from .evidence import evidence_of_channels
from .own import name_of, without_scheme
from .target import NOT_KNOWN, AttachedTarget, JudgedTarget, TargetOptions

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "wmtop.targets"
"""The group of entry points of plug-ins: each has the name of the scheme of its addresses."""


def plugins() -> "dict[str, EntryPoint]":
    """The plug-ins that are installed, by the scheme of their addresses."""
    from importlib.metadata import entry_points

    return {each.name.lower(): each for each in entry_points(group=GROUP)}


def open_plugin(entry: "EntryPoint", address: str, options: TargetOptions) -> AttachedTarget:
    """The target that the entry point's object makes of address and options."""
    target = cast(JudgedTarget[Any], _Guarded(entry, address, options))
    return AttachedTarget(target, name_of(without_scheme(address).strip("/").rpartition("/")[2] or entry.name))


class _Guarded:
    """A plug-in's target; each unforeseen error of it is a RunError, one line that names the plug-in."""

    def __init__(self, entry: "EntryPoint", address: str, options: TargetOptions) -> None:
        self._entry = entry
        self._target = self._run(lambda: entry.load()(address, options))

    def picture(self, name: str, facts: Any, now_ms: int) -> Picture:
        """The plug-in's snapshot, with what its channels show."""
        return self._run(lambda: _picture_of(self._target.picture(name, facts, now_ms)))

    def __getattr__(self, name: str) -> Any:
        value = self._run(lambda: getattr(self._target, name))
        return partial(self._run, value) if callable(value) else value

    def _run(self, call: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return call(*arguments)
        except (UsageError, RunError):
            raise
        except Exception as error:
            words = one_line(f"{type(error).__name__}: {first_line(error)}")
            raise RunError(f"the plug-in {self._entry.value} for {self._entry.name}:// failed: {words}") from error


def _picture_of(shown: Snapshot) -> Picture:
    return Picture(shown, evidence_of_channels(shown))


def snapshot_of_channels(
    name: str, source: SourceView, watermarks: Mapping[str, int | None], now_ms: int, before: Snapshot | None = None,
    other: Other | None = None,
) -> Snapshot:  # fmt: skip
    """The snapshot of channels by their watermarks (epoch ms; None: none yet), whose minimum is the target's watermark.

    `before` is the last one: since when a channel's watermark is unchanged, and since when a channel is the slowest.
    """
    views = _views(watermarks, now_ms, before)
    level, blockers = _combined(views, now_ms, before)
    return Snapshot(
        name=name,
        state="live",
        now_ms=now_ms,
        wall_ms=now_ms,
        settings=NOT_KNOWN,
        source=source,
        level=level,
        blockers=blockers,
        channels=views,
        windows=Windows(open_count=None, fired=None, late_firings=None),
        totals=NOTHING_COUNTED,
        target=Other(source.kind) if other is None else other,
        origin={"channels": source.kind, "level": source.kind},
    )


def _views(watermarks: Mapping[str, int | None], now_ms: int, before: Snapshot | None) -> list[ChannelView]:
    last = {} if before is None else {view.channel: (view.watermark_ms, view.since_ms) for view in before.channels}
    return [
        replace(
            UNCOUNTED,
            channel=channel,
            watermark_ms=watermark_ms,
            max_event_ms=None,
            state="never_seen" if watermark_ms is None else "active",
            since_ms=changed_ms(watermark_ms, last.get(channel), now_ms),
            aligned=True,
        )
        for channel, watermark_ms in watermarks.items()
    ]


def _combined(views: list[ChannelView], now_ms: int, before: Snapshot | None) -> tuple[Level, list[Blocker] | None]:
    """The minimum, the channel that holds it back, and the steps up to the fastest channel."""
    missing = next((view.channel for view in views if view.watermark_ms is None), None)
    if missing is not None:
        return Level(holder=_holder(missing, "no_watermark", now_ms, before)), None
    if not views:
        return Level(), None
    in_order = sorted((view.watermark_ms or 0, number) for number, view in enumerate(views))
    lowest_ms = in_order[0][0]
    fastest_ms = in_order[-1][0]
    last = None if before is None else (before.level.watermark_ms, before.level.moved_ms)
    level = Level(
        watermark_ms=lowest_ms,
        behind_fastest_ms=fastest_ms - lowest_ms,
        behind_clock_ms=now_ms - lowest_ms,
        holder=_holder(views[in_order[0][1]].channel, "behind", now_ms, before),
        moved_ms=changed_ms(lowest_ms, last, now_ms),
    )
    steps = steps_below(in_order, lowest_ms, fastest_ms)
    return level, blockers_of(steps, lambda number: views[number].channel, lambda number: "behind")


def _holder(channel: str, cause: Cause, now_ms: int, before: Snapshot | None) -> Holder:
    last = None if before is None else before.level.holder
    return held_since(Holder(channel, now_ms, cause), last, now_ms, was_watched=before is not None, of_cause=True)
