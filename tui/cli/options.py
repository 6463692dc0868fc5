"""Parses the values of the command line: durations, times, and the settings; errors name the given value."""

import re
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from ...engine.system.errors import UsageError
from ...engine.text import formatting
from ...engine.watermarks.settings import (
    MAX_CHANNELS,
    MAX_WINDOWS_PER_RECORD,
    TUNABLE,
    Session,
    Settings,
    Sliding,
    StrategyName,
    Tumbling,
    WindowSpec,
)

if TYPE_CHECKING:
    from ..words.fail_if import Expression

_STRATEGIES: dict[str, StrategyName] = {
    name: name
    for name in ("bounded", "monotonous", "bounded-legacy", "punctuated", "smoothed", "source", "spark", "none")
}


def parse_duration(text: str) -> int:
    """A duration in ms: `250ms`, `45s`, `1h30m`; ValueError that names what was given and an example."""
    try:
        return formatting.parse_duration(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a duration, e.g. 250ms, 45s, 30m, 2h, 1d or 1h30m") from None


def parse_condition(text: str) -> "Expression":
    """A condition of `--fail-if`; facts of plug-ins (`kind.name`) are known if the plug-in is installed."""
    from ...engine.targets.plugin import plugins
    from ..words.fail_if import parse_fail_if

    return parse_fail_if(text, plugins() if "." in text else ())


def parse_duration_or_off(text: str) -> int | None:
    """A duration in ms, or None for `off`."""
    if text == "off":
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from None


def parse_share(text: str) -> float:
    """A share above 0 and below 1, from a percentage or a number: `99.9%`, `0.999`."""
    number = text.removesuffix("%").strip()
    try:
        share = Decimal(number) / (100 if text.endswith("%") else 1)
    except InvalidOperation:
        share = Decimal(0)
    if not 0 < share < 1:
        raise ValueError(f"'{text}' is not a share above 0% and below 100%, e.g. 99.9% or 0.999")
    return float(share)


def parse_time(text: str) -> int:
    """A time in epoch ms, from ISO 8601 (UTC without a zone) or epoch ms; ValueError with an example otherwise."""
    if re.fullmatch(r"-?\d+", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a time, e.g. 2013-02-08T12:00:00Z or 1360324800000") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1000 // 1)


def parse_speed(text: str) -> float | None:
    """Seconds of arrival time per second; None for `max`."""
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed <= 1e9:
        raise ValueError(f"'{text}' is not a speed, e.g. 1, 600 or max")
    return speed


def window_of(size_ms: int | None, slide_ms: int | None, offset_ms: int, gap_ms: int | None) -> WindowSpec:
    """The window by `--window [--slide] [--offset] | --session`."""
    if gap_ms is not None:
        if size_ms is not None or slide_ms is not None or offset_ms:
            raise UsageError(
                "--session cannot be combined with --window, --slide or --offset; choose one kind of window"
            )
        _positive("--session", gap_ms)
        return Session(gap_ms)
    size = 3_600_000 if size_ms is None else size_ms
    _positive("--window", size)
    if slide_ms is None or slide_ms == size:
        return Tumbling(size, offset_ms)
    _positive("--slide", slide_ms)
    if -(-size // slide_ms) > MAX_WINDOWS_PER_RECORD:
        raise UsageError(
            f"--slide: {size} ms windows every {slide_ms} ms put each record into {-(-size // slide_ms)} windows "
            f"(at most {MAX_WINDOWS_PER_RECORD}); use a slide of at least {-(-size // MAX_WINDOWS_PER_RECORD)}ms"
        )
    return Sliding(size, slide_ms, offset_ms)


def settings_of(
    *,
    strategies: list[str],
    marker: str | None,
    smooth: int | None,
    watermark: str | None,
    lateness_ms: int | None,
    idle_after_ms: int | None,
    emit_every_ms: int,
    window: WindowSpec,
    allowed_lateness_ms: int,
    future_guard_ms: int | None,
    subtasks: int | None,
    max_channels: int = 10_000,
) -> Settings:
    """The settings of a run; UsageError if options contradict each other."""
    if len(strategies) > 1:
        raise UsageError(f"--strategy is given {len(strategies)} times ({', '.join(strategies)}): give one")
    strategy = strategies[0] if strategies else "bounded" if watermark is None else "source"
    name, factory = _strategy(strategy)
    for option, value, owner in (("--marker", marker, "punctuated"), ("--smooth", smooth, "smoothed")):
        if value is not None and name != owner:
            raise UsageError(f"{option} belongs to --strategy {owner}, but the strategy is {strategy}")
    if watermark is not None and name != "source":
        raise UsageError(f"--watermark needs --strategy source, but the strategy is {strategy}; leave out one of them")
    if name == "punctuated" and marker is None:
        raise UsageError("--strategy punctuated needs --marker SQL, e.g. --marker \"kind = 'marker'\"")
    if name == "source" and watermark is None:
        raise UsageError("--strategy source needs --watermark COL, the column that carries the watermarks")
    if lateness_ms is not None and name not in TUNABLE:
        raise UsageError(
            f"--lateness: the strategy {strategy} does not use it; leave it out, or use --strategy bounded"
        )
    if smooth is not None and smooth < 1:
        raise UsageError(f"--smooth {smooth}: average at least 1 timestamp, e.g. --smooth 100")
    if idle_after_ms == 0:
        raise UsageError("--idle-after 0s: an idle timeout must be longer than 0; give 'off' for no idle timeout")
    if not 1 <= max_channels <= MAX_CHANNELS:
        raise UsageError(f"--max-channels {max_channels}: give 1 to {MAX_CHANNELS}, e.g. --max-channels 10000")
    if subtasks is not None and subtasks < 1:
        raise UsageError(f"--subtasks {subtasks}: give at least 1 source instance, e.g. --subtasks 4")
    default = 1_800_000 if name in TUNABLE else 0 if name == "monotonous" else None
    return Settings(
        strategy=name,
        lateness_ms=default if lateness_ms is None else lateness_ms,
        idle_after_ms=idle_after_ms,
        allowed_lateness_ms=allowed_lateness_ms,
        future_guard_ms=future_guard_ms,
        emit_every_ms=emit_every_ms,
        subtasks=subtasks,
        max_channels=max_channels,
        window=window,
        smooth=100 if smooth is None else smooth,
        marker=marker,
        watermark_column=watermark,
        factory=factory,
    )


def _strategy(text: str) -> tuple[StrategyName, str | None]:
    if text in _STRATEGIES:
        return _STRATEGIES[text], None
    if ":" in text:
        return "custom", text
    raise UsageError(f"--strategy '{text}' is not known: use {', '.join(_STRATEGIES)} or module:factory")


def _positive(option: str, value_ms: int) -> None:
    if value_ms < 1:
        raise UsageError(f"{option} must be longer than 0, e.g. {option} 1h")
