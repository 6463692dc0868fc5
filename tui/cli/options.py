"""The options of every engine: their parsers, and the settings that they make."""

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from ...engine.system.errors import UsageError
from ...engine.text import formatting
from ...engine.text.formatting import DAY
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
    from ..words.check import Expression

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
    from ..words.check import parse_fail_if

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


DEFAULT_IDLE_AFTER_MS = 7_200_000
FORCE_HELP = "overwrite output files that exist"


def duration_option(text: str, **more: Any) -> Any:
    """An option that is a duration (ms)."""
    return typer.Option(parser=parsed(parse_duration), metavar="D", help=text, show_default=False, **more)


def off_option(text: str, **more: Any) -> Any:
    """An option that is a duration (ms) or `off`, which is -1 until `or_off` reads it."""
    return typer.Option(parser=parsed(_minus_one_for_off), metavar="D|off", help=text, show_default=False, **more)


def on_alert_option() -> Any:
    """The option for a command that each alert runs."""
    return typer.Option(metavar="CMD", help="run CMD (no shell) at each alert, with the alert as JSON on its stdin")


def or_off(value: int) -> int | None:
    """The value of an `off_option`: ms, or None for off."""
    return None if value < 0 else value


def parsed(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """A parser for typer, which also passes default values through it."""

    def run(value: Any) -> Any:
        if not isinstance(value, str):
            return value
        try:
            return parse(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    run.__name__ = "D"
    return run


def _minus_one_for_off(text: str) -> int:
    value = parse_duration_or_off(text)
    return -1 if value is None else value


@dataclass(frozen=True)
class EngineArguments:
    """The options of `run …` and `demo` besides their source."""

    strategy: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="bounded, monotonous, bounded-legacy, punctuated, smoothed, source, spark, none or module:factory",
        ),
    ] = None
    marker: Annotated[
        str | None, typer.Option(metavar="SQL", help="punctuated: the condition that makes a record a marker")
    ] = None
    smooth: Annotated[int | None, typer.Option(metavar="N", help="smoothed: how many timestamps to average (100)")] = (
        None
    )
    watermark: Annotated[
        str | None, typer.Option(metavar="COL", help="source: the column with the source's watermarks")
    ] = None
    lateness: Annotated[int | None, duration_option("max out-of-orderness (30m)")] = None
    idle_after: Annotated[
        int, off_option("idle timeout: a channel without records for D no longer holds back the watermark (2h)")
    ] = DEFAULT_IDLE_AFTER_MS
    emit_every: Annotated[int, duration_option("the emit interval (200ms)")] = 200
    window: Annotated[int | None, duration_option("the size of windows (1h)")] = None
    slide: Annotated[int | None, duration_option("sliding windows: from start to start")] = None
    offset: Annotated[int, duration_option("where windows start (0s)")] = 0
    session: Annotated[
        int | None, typer.Option(parser=parsed(parse_duration), metavar="GAP", help="session windows")
    ] = None
    allowed_lateness: Annotated[
        int, duration_option("how long a window accepts late records after it first fired (0s)")
    ] = 0
    future_guard: Annotated[
        int | None, off_option("how far ahead of the clock an event time may be (5m; replay: off)")
    ] = None
    subtasks: Annotated[int | None, typer.Option(metavar="N", help="combine the channels in N source instances")] = None
    max_channels: Annotated[
        int, typer.Option(metavar="N", help="channels beyond N share the channel 'other' (10000)")
    ] = 10_000
    name: Annotated[str | None, typer.Option(metavar="NAME", help="the engine's name")] = None
    state_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="keep the state in DIR, and resume from it")] = (
        None
    )
    master: Annotated[str | None, typer.Option(metavar="URL", help="Spark's master (local[*])")] = None
    conf: Annotated[list[str] | None, typer.Option(metavar="K=V", help="a Spark setting; may be repeated")] = None
    packages: Annotated[str | None, typer.Option(metavar="G:A:V", help="Maven packages for Spark")] = None
    jars: Annotated[str | None, typer.Option(metavar="FILE,…", help="jars for Spark")] = None
    record: Annotated[Path | None, typer.Option(metavar="FILE", help="record every snapshot")] = None
    record_keep: Annotated[int, off_option("how much of a recording to keep (24h, at most 2 GiB; off: all)")] = DAY
    verdict_after: Annotated[
        int | None, duration_option("the time span that the verdict judges (1m, at least 10 batches)")
    ] = None
    firings: Annotated[Path | None, typer.Option(metavar="FILE", help="write every firing and late drop as NDJSON")] = (
        None
    )
    late_output: Annotated[
        str | None, typer.Option(metavar="DIR", help="keep the late (dropped) records in DIR, as Parquet")
    ] = None
    explain: Annotated[
        str | None, typer.Option(metavar="COL,…", help="show which values of these columns late records have")
    ] = None
    on_alert: Annotated[str | None, on_alert_option()] = None
    force: Annotated[bool, typer.Option("--force", help=FORCE_HELP)] = False
    headless: Annotated[bool, typer.Option("--headless", help="no screen")] = False
    once: Annotated[bool, typer.Option("--once", help="run to the end of the source, print the summary, exit")] = False
    json: Annotated[bool, typer.Option("--json", help="print snapshots as JSON lines")] = False


def with_engine_arguments(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that takes `engine: EngineArguments` the options of every engine besides its own."""
    own = inspect.signature(command, eval_str=True).parameters.values()
    shared = get_type_hints(EngineArguments, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=keyword) for parameter in own if parameter.name != "engine"]
    parameters += [
        inspect.Parameter(field.name, keyword, default=field.default, annotation=shared[field.name])
        for field in fields(EngineArguments)
    ]

    def run(**values: Any) -> None:
        engine = EngineArguments(**{field.name: values.pop(field.name) for field in fields(EngineArguments)})
        command(engine=engine, **values)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
