"""The options of the commands: their parsers, those that several commands share, and the settings that they make."""

import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from ...engine.system.errors import UsageError, require
from ...engine.system.places import HERE_ONLY, path_here, scheme_of
from ...engine.targets.target import TargetOptions
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
    from ...engine.targets.spark.watch import WindowsTap
    from ..words.check import Expression

FAIL_ON = {"critical": ("critical",), "warning": ("critical", "warning"), "never": ()}
"""The severities of the findings that count, by `--fail-on`."""
_LEAP_YEAR_MS = 946_684_800_000
_STRATEGIES: dict[str, StrategyName] = {name: name for name in get_args(StrategyName) if name != "custom"}


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


def parse_severities(text: str) -> Collection[str]:
    """The severities that `--fail-on` names."""
    if text not in FAIL_ON:
        raise ValueError(f"'{text}' is not a severity; use {', '.join(FAIL_ON)}")
    return FAIL_ON[text]


def parse_duration_or_off(text: str) -> int:
    """A duration in ms, or -1 for `off`, which `or_off` reads."""
    if text == "off":
        return -1
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ValueError(f"{error}, or off") from None


def or_off(value: int) -> int | None:
    """The value of a `off_option`: ms, or None for off."""
    return None if value < 0 else value


def parse_share(text: str) -> float:
    """A share above 0 and below 1, from a percentage or a number: `99.9%`, `0.999`."""
    number = text.removesuffix("%").strip()
    try:
        share = Decimal(number) / (100 if text.endswith("%") else 1)
    except InvalidOperation:
        share = Decimal(0)
    if share.is_nan() or not 0 < share < 1:
        raise ValueError(f"'{text}' is not a share above 0% and below 100%, e.g. 99.9% or 0.999")
    return float(share)


def parse_time(text: str) -> int:
    """A time in epoch ms, from ISO 8601 (UTC without a zone) or epoch ms; ValueError with an example otherwise."""
    if re.fullmatch(r"-?\d{1,18}", text):
        return int(text)
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"'{text}' is not a time, e.g. 2013-02-08T12:00:00Z or 1360324800000") from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1000 // 1)


def checked_moment(text: str) -> str:
    """A time as the screen of a recording takes it, which is read once the recording is known."""
    try:
        formatting.parse_moment(text, _LEAP_YEAR_MS, UTC)
    except ValueError:
        raise ValueError(f"'{text}' is not a time, e.g. 14:30, 02-08 14:30, 2013-02-08T14:30Z or +10m") from None
    return text


def parse_state_place(text: str) -> Path:
    """The path of a state directory."""
    return path_here(text, f"{HERE_ONLY}: a store for the state is not supported yet")


def parse_directory_place(text: str) -> Path:
    """The path of a directory that `run files` reads."""
    return path_here(text, f"{HERE_ONLY} (replay {scheme_of(text)}:// with wmtop run replay)")


def parse_count(text: str) -> int:
    """A whole number from 1 on."""
    if re.fullmatch(r"\d{1,18}", text) and int(text):
        return int(text)
    raise ValueError(f"'{text}' is not a whole number from 1 on, e.g. 1000")


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


def place_option(metavar: str, help: str, *names: str) -> Any:
    """An option that is a path on this machine."""
    return option(metavar, help, *names, parse=path_here)


def place_argument(metavar: str, help: str, parse: Callable[[str], Path] = path_here) -> Any:
    """An argument that is a path on this machine."""
    return typer.Argument(parser=parsed(parse), metavar=metavar, help=help)


def flag(name: str, help: str) -> Any:
    """An option without a value."""
    return typer.Option(name, help=help)


def option(metavar: str, help: str, *names: str, parse: Callable[[str], Any] | None = None, **more: Any) -> Any:
    """An option with a value; without `names` it is named after its parameter."""
    parser = None if parse is None else parsed(parse)
    return typer.Option(*names, parser=parser, metavar=metavar, help=help, **more)


def choice(words: str, help: str) -> Any:
    """An option whose value is one of `words`, which are separated by `|`."""

    def parse(text: str) -> str:
        if text not in words.split("|"):
            raise ValueError(f"'{text}' is not known: use {any_of(words.split('|'))}")
        return text

    return option(words, help, parse=parse)


def count_option(help: str, metavar: str = "N") -> Any:
    """An option that is a whole number from 1 on."""
    return option(metavar, help, parse=parse_count)


def duration_option(help: str, *names: str, metavar: str = "D") -> Any:
    """An option that is a duration (ms)."""
    return option(metavar, help, *names, parse=parse_duration, show_default=False)


def off_option(help: str) -> Any:
    """An option that is a duration (ms) or `off`, which is -1 until `or_off` reads it."""
    return option("D|off", help, parse=parse_duration_or_off, show_default=False)


AtTime = Annotated[
    str | None, option("TIME", "a recording: that moment (its end), e.g. 14:30 or +10m", parse=checked_moment)
]
AllTargets = Annotated[bool, flag("--all", "all that runs, is configured or is published")]
Force = Annotated[bool, flag("--force", "overwrite output files that exist")]
Headless = Annotated[bool, flag("--headless", "no screen")]
Record = Annotated[Path | None, place_option("FILE", "record every snapshot")]
RecordKeep = Annotated[int, off_option("how much of a recording to keep (24h, at most 2 GiB; off: all)")]
VerdictAfter = Annotated[int | None, duration_option("frozen for longer is a stall (by its usual pace)")]
OnAlert = Annotated[str | None, option("CMD", "run CMD (no shell) at each alert, with the alert as JSON on its stdin")]
DEFAULT_IDLE_AFTER_MS = 7_200_000


@dataclass(frozen=True)
class EngineArguments:
    """The options of `run …` and `demo` besides their source."""

    strategy: Annotated[
        list[str] | None,
        option(
            "NAME", "bounded, monotonous, bounded-legacy, punctuated, smoothed, source, spark, none or module:factory"
        ),
    ] = None
    marker: Annotated[str | None, option("SQL", "punctuated: the condition that makes a record a marker")] = None
    smooth: Annotated[int | None, count_option("smoothed: how many timestamps to average (100)")] = None
    watermark: Annotated[str | None, option("COL", "source: the column with the source's watermarks")] = None
    lateness: Annotated[int | None, duration_option("max out-of-orderness (30m)")] = None
    idle_after: Annotated[
        int, off_option("idle timeout: a channel without records for D no longer holds back the watermark (2h)")
    ] = DEFAULT_IDLE_AFTER_MS
    emit_every: Annotated[int, duration_option("the emit interval (200ms)")] = 200
    window: Annotated[int | None, duration_option("the size of windows (1h)")] = None
    slide: Annotated[int | None, duration_option("sliding windows: from start to start")] = None
    offset: Annotated[int, duration_option("where windows start (0s)")] = 0
    session: Annotated[int | None, duration_option("session windows", metavar="GAP")] = None
    allowed_lateness: Annotated[
        int, duration_option("how long a window accepts late records after it first fired (0s)")
    ] = 0
    future_guard: Annotated[
        int | None, off_option("how far ahead of the clock an event time may be (5m; replay: off)")
    ] = None
    subtasks: Annotated[int | None, count_option("combine the channels in N source instances")] = None
    max_channels: Annotated[int, count_option("channels beyond N share the channel 'other'")] = 10_000
    name: Annotated[str | None, option("NAME", "the engine's name")] = None
    state_dir: Annotated[
        Path | None, option("DIR", "keep the state in DIR, and resume from it", parse=parse_state_place)
    ] = None
    master: Annotated[str | None, option("URL", "Spark's master (local[*])")] = None
    conf: Annotated[list[str] | None, option("K=V", "a Spark setting; may be repeated")] = None
    packages: Annotated[str | None, option("G:A:V", "Maven packages for Spark")] = None
    jars: Annotated[str | None, option("FILE,…", "jars for Spark")] = None
    record: Record = None
    record_keep: RecordKeep = DAY
    verdict_after: VerdictAfter = None
    firings: Annotated[Path | None, place_option("FILE", "write every firing and late drop as NDJSON")] = None
    late_output: Annotated[str | None, option("DIR", "keep the late (dropped) records in DIR, as Parquet")] = None
    explain: Annotated[str | None, option("COL,…", "show which values of these columns late records have")] = None
    on_alert: OnAlert = None
    force: Force = False
    headless: Headless = False
    once: Annotated[bool, flag("--once", "run to the end of the source, print the summary, exit")] = False
    json: Annotated[bool, flag("--json", "print snapshots as JSON lines")] = False

    @property
    def window_spec(self) -> WindowSpec:
        """The window by `--window [--slide] [--offset] | --session`; UsageError if they contradict each other."""
        if self.session is not None:
            if self.window is not None or self.slide is not None or self.offset:
                raise UsageError(
                    "--session cannot be combined with --window, --slide or --offset; choose one kind of window"
                )
            _positive("--session", self.session)
            return Session(self.session)
        size = 3_600_000 if self.window is None else self.window
        _positive("--window", size)
        if self.slide is None or self.slide == size:
            return Tumbling(size, self.offset)
        _positive("--slide", self.slide)
        if -(-size // self.slide) > MAX_WINDOWS_PER_RECORD:
            raise UsageError(
                f"--slide: {size} ms windows every {self.slide} ms put each record into {-(-size // self.slide)} "
                f"windows (at most {MAX_WINDOWS_PER_RECORD}); use a slide of at least "
                f"{-(-size // MAX_WINDOWS_PER_RECORD)}ms"
            )
        return Sliding(size, self.slide, self.offset)


def settings_of(engine: EngineArguments, *, live: bool) -> Settings:
    """The settings of a run; UsageError if options contradict each other."""
    window, strategies, watermark = engine.window_spec, engine.strategy or [], engine.watermark
    if len(strategies) > 1:
        raise UsageError(f"--strategy is given {len(strategies)} times ({', '.join(strategies)}): give one")
    strategy = strategies[0] if strategies else "bounded" if watermark is None else "source"
    factory = strategy if strategy not in _STRATEGIES and ":" in strategy else None
    if strategy not in _STRATEGIES and factory is None:
        raise UsageError(f"--strategy '{strategy}' is not known: use {', '.join(_STRATEGIES)} or module:factory")
    name = _STRATEGIES.get(strategy, "custom")
    for given, value, owner in (("--marker", engine.marker, "punctuated"), ("--smooth", engine.smooth, "smoothed")):
        if value is not None and name != owner:
            raise UsageError(f"{given} belongs to --strategy {owner}, but the strategy is {strategy}")
    if watermark is not None and name != "source":
        raise UsageError(f"--watermark needs --strategy source, but the strategy is {strategy}; leave out one of them")
    if name == "punctuated" and engine.marker is None:
        raise UsageError("--strategy punctuated needs --marker SQL, e.g. --marker \"kind = 'marker'\"")
    if name == "source" and watermark is None:
        raise UsageError("--strategy source needs --watermark COL, the column that carries the watermarks")
    if engine.lateness is not None and name not in TUNABLE:
        raise UsageError(
            f"--lateness: the strategy {strategy} does not use it; leave it out, or use --strategy bounded"
        )
    if engine.idle_after == 0:
        raise UsageError("--idle-after 0s: an idle timeout must be longer than 0; give 'off' for no idle timeout")
    if engine.max_channels > MAX_CHANNELS:
        raise UsageError(f"--max-channels {engine.max_channels}: give at most {MAX_CHANNELS}")
    lateness, guard = engine.lateness, engine.future_guard
    if lateness is None:
        lateness = 1_800_000 if name in TUNABLE else 0 if name == "monotonous" else None
    return Settings(
        strategy=name,
        lateness_ms=lateness,
        idle_after_ms=or_off(engine.idle_after),
        allowed_lateness_ms=engine.allowed_lateness,
        future_guard_ms=(300_000 if live else None) if guard is None else or_off(guard),
        emit_every_ms=engine.emit_every,
        subtasks=engine.subtasks,
        max_channels=engine.max_channels,
        window=window,
        smooth=100 if engine.smooth is None else engine.smooth,
        marker=engine.marker,
        watermark_column=watermark,
        factory=factory,
    )


def _positive(option: str, value_ms: int) -> None:
    if value_ms < 1:
        raise UsageError(f"{option} must be longer than 0, e.g. {option} 1h")


TARGET_OPTIONS: dict[str, Any] = {
    "group": Annotated[str | None, option("G", "kafka: the consumer group to watch")],
    "bootstrap": Annotated[str | None, option("B", "query, flink: the Kafka cluster that it reads from")],
    "time": Annotated[str | None, option("PATH", "kafka: the JSON field with the event time (the record's timestamp)")],
    "lateness": Annotated[int | None, duration_option("kafka: max out-of-orderness of the watermarks shown (0s)")],
    "idle_after": Annotated[
        int | None,
        off_option("kafka: idle timeout: a partition without records for D no longer holds back the watermark (2h)"),
    ],
    "window": Annotated[int | None, duration_option("Kafka Streams: its tumbling windows, to show which wait")],
    "grace": Annotated[int | None, duration_option("Kafka Streams: the grace of its windows")],
    "kafka_config": Annotated[
        Path | None, place_option("FILE", "kafka: client properties, for example for TLS and SASL")
    ],
    "query": Annotated[
        str | None, option("NAME", "event log, spark+http, published query: the query to show, by name or id")
    ],
    "operator": Annotated[
        str | None, option("NAME", "flink: the operator whose inputs are shown (the windows nearest the sources)")
    ],
    "ca_file": Annotated[Path | None, place_option("FILE", "flink, spark+http: certificate authorities, PEM")],
    "client_cert": Annotated[
        Path | None, place_option("FILE", "flink, spark+http: a client certificate with its key, PEM")
    ],
    "auth_file": Annotated[
        Path | None, place_option("FILE", "flink, spark+http: a file with a bearer token or user:password")
    ],
    "state_reader": Annotated[str | None, option("none|files|spark", "query: how to read its state (files)")],
}
"""The options of commands that look at a target by parameter, in the order of `--help`."""
OF_CHECKS = ("bootstrap", "time", "group", "window", "grace", "kafka_config", "query")
"""The options of `check` and `report`."""


def target_options(**given: Any) -> TargetOptions:
    """The options by parameter; None or missing: not given."""
    return TargetOptions(**given, spark_reader=functools.partial(spark_windows, waits=True))


def spark_windows(path: Path, *, waits: bool) -> "WindowsTap":
    """Reads a checkpoint's state with Spark; `waits`: each poll waits for it."""
    require("run", "--state-reader spark")
    from ...engine.run.state_reader import SparkWindows

    return SparkWindows(path, waits=waits)


Command = Callable[..., None]


def with_target_options(*names: str) -> Callable[[Command], Command]:
    """Give a command that takes `options: TargetOptions` the options of these names in its place."""
    return functools.partial(_expand, "options", {name: (TARGET_OPTIONS[name], None) for name in names}, target_options)


def with_engine_arguments(command: Command) -> Command:
    """Give a command that takes `engine: EngineArguments` the options of every engine in its place."""
    hints = get_type_hints(EngineArguments, include_extras=True)
    options = {field.name: (hints[field.name], field.default) for field in fields(EngineArguments)}
    name = "wmtop demo" if command.__name__ == "demo" else "wmtop run"

    def arguments(**given: Any) -> EngineArguments:
        require("run", name)
        return EngineArguments(**given)

    return _expand("engine", options, arguments, command)


def _expand(group: str, options: dict[str, tuple[Any, Any]], make: Callable[..., Any], command: Command) -> Command:
    """The command with `options` (annotation, default) instead of the parameter `group`, which `make` makes of them."""
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    for each in inspect.signature(command, eval_str=True).parameters.values():
        if each.name == group:
            parameters += [
                inspect.Parameter(name, keyword, default=default, annotation=hint)
                for name, (hint, default) in options.items()
            ]
        else:
            parameters.append(each.replace(kind=keyword))

    @functools.wraps(command)
    def run(**values: Any) -> None:
        values[group] = make(**{name: values.pop(name) for name in options})
        command(**values)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def any_of(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *most, last = words
    return f"{', '.join(most)} or {last}" if most else last
