"""The options that every engine has, written once and added to each `run` command's own."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ...engine.text.formatting import DAY
from .options import parse_duration, parse_duration_or_off

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
