"""`wmtop demo` and `wmtop run SOURCE`: each creates its source and starts an engine on it."""

import re
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer

from ... import sample_data
from ...engine.system.errors import UsageError
from ...engine.targets.own import is_remote, local_path, name_of
from .attach import watch
from .complete import epilog
from .engines import bounds_of, check_engine_outputs, has_screen, settings_for, show, staging, start, stop_on_eof
from .options import (
    DEFAULT_IDLE_AFTER_MS,
    EngineArguments,
    duration_option,
    or_off,
    parse_duration,
    parse_speed,
    parse_time,
    parsed,
    with_engine_arguments,
)
from .target_options import kafka_columns, kafka_config_of, kafka_start

run_app = typer.Typer(
    help="Start an engine on a source.", epilog=epilog("run"), rich_markup_mode=None, no_args_is_help=False
)
DEMO_NAME = "flights"
_DEMO_LATENESS_MS = 1_800_000
SOURCES = "replay FILE… --time COL, files DIR --time COL, kafka BOOTSTRAP TOPIC…, or rate"


@run_app.callback(invoke_without_command=True)
def run_command(context: typer.Context) -> None:
    """Start an engine on a source."""
    if context.invoked_subcommand is None:
        raise UsageError(f"run needs a source: {SOURCES}")


@with_engine_arguments
def demo(
    engine: EngineArguments,
    speed: Annotated[
        float,
        typer.Option(parser=parsed(parse_speed), metavar="X", help="replay speed multiplier (600)", show_default=False),
    ] = 600.0,
    kafka: Annotated[
        bool, typer.Option("--kafka", help="send the flights through a local Kafka broker, started for the demo")
    ] = False,
    flink: Annotated[
        bool, typer.Option("--flink", help="send the flights through a local Flink, started for the demo, and attach")
    ] = False,
) -> None:
    """Replay real flights through Spark; the engine stops when you quit."""
    if kafka and flink:
        raise UsageError("give --kafka or --flink, not both")
    if has_screen(engine):  # the input is our own: nothing to check before the first paint
        settings_for(engine, live=False)
        check_engine_outputs(engine, [])
        show(engine.name, DEMO_NAME, "stop")
        return
    if flink:
        for option, value in (("--late-output", engine.late_output), ("--explain", engine.explain)):
            if value is not None:
                raise UsageError(f"{option}: wmtop has only Flink's numbers, not its records; leave it out, or --flink")
        _demo_flink(engine, speed)
    # With few rows per batch the JVM's optimising compiler costs more than it saves: it doubles the work of the start.
    engine = replace(engine, conf=["spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1", *(engine.conf or [])])
    if kafka:
        _demo_kafka(engine, speed)
        return
    from ...engine.run.sources.columns import Columns
    from ...engine.run.sources.replay import Replay

    columns = Columns(
        time=sample_data.TIME,
        channel=sample_data.CHANNEL,
        arrival=sample_data.ARRIVAL,
        watermark=engine.watermark,
        marker=engine.marker,
        since_ms=parse_time(sample_data.DEMO_START),
    )
    directory, keep = staging(engine)
    source = Replay([sample_data.flights()], columns, directory, keep=keep, speed=speed)
    start(source, engine, live=False, name=DEMO_NAME, inputs=[sample_data.flights()])


def _demo_flink(engine: EngineArguments, speed: float) -> NoReturn:
    from ...engine.targets.flink.demo import DemoFlights, FlightsWatch
    from ...engine.targets.watch_engine import WatchOptions

    start_ms = parse_time(sample_data.DEMO_START)
    rows = DemoFlights(sample_data.flights(), sample_data.TIME, sample_data.ARRIVAL, sample_data.CHANNEL, start_ms)
    idle_after = or_off(engine.idle_after) or DEFAULT_IDLE_AFTER_MS
    watched = FlightsWatch(
        rows,
        speed=speed,
        lateness_ms=_DEMO_LATENESS_MS if engine.lateness is None else engine.lateness,
        idle_after_ms=max(1_000, int(idle_after / speed)),  # Flink's idle timer uses the clock, not event time
    )
    options = WatchOptions(
        record=engine.record,
        record_bounds=bounds_of(engine.record_keep),
        verdict_after_ms=engine.verdict_after,
        force=engine.force,
        once=engine.once,
        stop_on_eof=stop_on_eof(),
    )
    raise typer.Exit(watch(watched, options, engine.name, DEMO_NAME, json=engine.json))


def _demo_kafka(engine: EngineArguments, speed: float) -> None:
    from ...engine.run.sources.kafka import DemoRows, KafkaDemo

    if engine.idle_after == DEFAULT_IDLE_AFTER_MS:
        # Event time advances `speed` times as fast as the clock that idleness uses.
        engine = replace(engine, idle_after=max(1_000, int(DEFAULT_IDLE_AFTER_MS / speed)))
    rows = DemoRows(sample_data.flights(), sample_data.TIME, sample_data.ARRIVAL, sample_data.CHANNEL)
    source = KafkaDemo(DEMO_NAME, rows, speed=speed, start_ms=parse_time(sample_data.DEMO_START))
    start(source, engine, live=True, name=DEMO_NAME)


@run_app.command("replay", epilog=epilog("run replay"))
@with_engine_arguments
def run_replay(
    engine: EngineArguments,
    file: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Parquet, CSV or JSON lines files, directories, quoted patterns, or their URIs (s3://…)",
        ),
    ],
    time: Annotated[str, typer.Option(metavar="COL", help="column with the event time")],
    channel: Annotated[str | None, typer.Option(metavar="COL", help="column with the channel")] = None,
    arrival: Annotated[str | None, typer.Option(metavar="COL", help="column with the arrival time")] = None,
    time_unit: Annotated[str, typer.Option(metavar="ms|s|us|ns", help="unit of numeric times")] = "ms",
    speed: Annotated[
        float | None,
        typer.Option(parser=parsed(parse_speed), metavar="X|max", help="replay speed multiplier, or max (max)"),
    ] = None,
    batch_rows: Annotated[
        int | None, typer.Option(metavar="N", help="exactly N rows per batch, for reproducible runs")
    ] = None,
) -> None:
    """Replay files in order of arrival."""
    from ...engine.run.sources.columns import Columns
    from ...engine.run.sources.data_files import data_files
    from ...engine.run.sources.replay import Replay

    columns = Columns(
        time=time,
        channel=channel,
        arrival=arrival,
        watermark=engine.watermark,
        marker=engine.marker,
        unit=_unit(time_unit),
    )
    directory, keep = staging(engine)
    rows = _at_least_one("--batch-rows", batch_rows)
    places = [place if is_remote(place) else local_path(place) for place in file]
    files = data_files(places)
    local = [place for place in places if isinstance(place, Path)]
    local += [Path(each.path) for each in files if not each.is_remote]
    source = Replay(files, columns, directory, keep=keep, speed=speed, batch_rows=rows)
    start(source, engine, live=False, name=name_of(_last_name(file[0])), inputs=local)


@run_app.command("files", epilog=epilog("run files"))
@with_engine_arguments
def run_files(
    engine: EngineArguments,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="directory that receives new files")],
    time: Annotated[str, typer.Option(metavar="COL", help="column with the event time")],
    channel: Annotated[str | None, typer.Option(metavar="COL", help="column with the channel")] = None,
    time_unit: Annotated[str, typer.Option(metavar="ms|s|us|ns", help="unit of numeric times")] = "ms",
    format: Annotated[str | None, typer.Option(metavar="parquet|csv|json", help="file format")] = None,
) -> None:
    """Read new files of a directory as they appear."""
    from ...engine.run.sources.columns import Columns
    from ...engine.run.sources.files import Files

    if format not in (None, "parquet", "csv", "json"):
        raise UsageError(f"--format '{format}' is not known: use parquet, csv or json")
    columns = Columns(
        time=time, channel=channel, watermark=engine.watermark, marker=engine.marker, unit=_unit(time_unit)
    )
    source = Files(directory, columns, as_format=format, once=engine.once)
    start(source, engine, live=True, name=name_of(directory.name), inputs=[directory])


@run_app.command("kafka", epilog=epilog("run kafka"))
@with_engine_arguments
def run_kafka(
    engine: EngineArguments,
    bootstrap: Annotated[str, typer.Argument(metavar="BOOTSTRAP", help="host:port, comma-separated")],
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC…")],
    time: Annotated[
        str,
        typer.Option(metavar="PATH|timestamp", help="event time: a field of the JSON value, or the record timestamp"),
    ] = "timestamp",
    time_unit: Annotated[
        str, typer.Option(metavar="auto|ms|s|us|ns", help="unit of numeric times (auto: by magnitude)")
    ] = "auto",
    channel: Annotated[
        str,
        typer.Option(
            metavar="partition|key|PATH", help="what a channel is: partition, key, or a field of the JSON value"
        ),
    ] = "partition",
    from_: Annotated[
        str, typer.Option("--from", metavar="earliest|latest|committed|TIME", help="where to start reading")
    ] = "earliest",
    group: Annotated[str | None, typer.Option(metavar="G", help="consumer group of --from committed")] = None,
    reader: Annotated[str, typer.Option(metavar="auto|connector|python", help="which client reads records")] = "auto",
    max_drift: Annotated[
        int | None, duration_option("pause partitions that are further ahead of the slowest in event time")
    ] = None,
    batch_records: Annotated[
        int | None, typer.Option(metavar="N", help="approximate number of records per batch")
    ] = None,
    kafka_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Kafka client properties, e.g. security")
    ] = None,
) -> None:
    """Read topics of a Kafka cluster."""
    from ...engine.run.sources.kafka import Kafka

    if reader not in ("auto", "connector", "python"):
        raise UsageError(f"--reader '{reader}' is not known: use auto, connector or python")
    begin = kafka_start(from_)
    if begin == "committed" and group is None:
        raise UsageError("--from committed needs a consumer group: give --group G")
    columns = kafka_columns(time, time_unit, channel, engine)
    if max_drift is not None and channel != "partition":
        raise UsageError("--max-drift pauses partitions: it needs --channel partition")
    directory, keep = staging(engine)
    source = Kafka(
        kafka_config_of(bootstrap, kafka_config),
        topic,
        columns,
        start=begin,
        group=group,
        reader=reader,
        max_drift_ms=max_drift,
        once=engine.once,
        batch_records=_at_least_one("--batch-records", batch_records),
        directory=directory,
        keep=keep,
        resuming=engine.state_dir is not None and (engine.state_dir / "state.json").exists(),
    )
    start(source, engine, live=True, name=name_of(topic[0]), inputs=[kafka_config] if kafka_config else [])


@run_app.command("rate", epilog=epilog("run rate"))
@with_engine_arguments
def run_rate(
    engine: EngineArguments,
    channels: Annotated[int, typer.Option(metavar="N", help="number of channels")] = 16,
    rows_per_second: Annotated[int, typer.Option(metavar="R", help="records per second")] = 1000,
    rows: Annotated[int | None, typer.Option(metavar="N", help="end after N rows")] = None,
    for_: Annotated[
        int | None, typer.Option("--for", parser=parsed(parse_duration), metavar="D", help="end after D")
    ] = None,
) -> None:
    """Synthetic records, for load tests."""
    from ...engine.run.sources.rate import Rate

    if rows is not None and for_ is not None:
        raise UsageError("--rows and --for both set the end: give one of them")
    if for_ is not None:
        rows = rows_per_second * for_ // 1000
    source = Rate(
        channels=_at_least_one("--channels", channels) or 0,
        rows_per_second=_at_least_one("--rows-per-second", rows_per_second) or 0,
        rows=_at_least_one("--rows", rows),
    )
    start(source, engine, live=True, name="rate")


def _last_name(place: str) -> str:
    """The last part of a path or URI that is not a pattern, without the endings of its name."""
    names = [name for name in re.sub(r"\?[a-z_]+=.*", "", place).split("/") if name and not has_magic(name)]
    return names[-1].split(".")[0] if names else ""


def _unit(text: str) -> Literal["ms", "s", "us", "ns"]:
    if text not in ("ms", "s", "us", "ns"):
        raise UsageError(f"--time-unit '{text}' is not known: use ms, s, us or ns")
    return text


def _at_least_one(option: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise UsageError(f"{option} {value}: must be at least 1, e.g. {option} 1000")
    return value
