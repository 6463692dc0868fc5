"""`wmtop demo` and `wmtop run SOURCE`: each creates its source and starts an engine on it."""

import re
from dataclasses import replace
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from ... import sample_data
from ...engine.system.errors import UsageError
from ...engine.targets.own import is_remote, local_path, name_of
from .attach import watch
from .engines import check_engine_outputs, has_screen, kept_files, show, start
from .examples import epilog
from .options import (
    DEFAULT_IDLE_AFTER_MS,
    EngineArguments,
    choice,
    count_option,
    duration_option,
    flag,
    option,
    or_off,
    parse_directory_place,
    parse_speed,
    parse_time,
    place_argument,
    place_option,
    settings_of,
    with_engine_arguments,
)

if TYPE_CHECKING:
    from ...engine.run.sources.kafka import Start
    from ...engine.run.sources.kafka_columns import KafkaColumns

run_app = typer.Typer(
    help="Start an engine on a source.", epilog=epilog("run"), rich_markup_mode=None, no_args_is_help=False
)
DEMO_NAME = "flights"
_DEMO_LATENESS_MS = 1_800_000
_DEMO_SPEED = 600.0
_USUAL_SPEED = 0.0
"""None is given."""
Unit = Literal["auto", "ms", "s", "us", "ns"]
TimeColumn = Annotated[str, option("COL|PATH", "column with the event time; of JSON also a path, e.g. a.b[0]")]
ChannelColumn = Annotated[str | None, option("COL", "column with the channel")]
TimeUnit = Annotated[Unit, choice("auto|ms|s|us|ns", "unit of numeric times (auto: each by its size)")]
SOURCES = "replay FILE… --time COL, files DIR --time COL, kafka BOOTSTRAP TOPIC…, or rate"


@run_app.callback(invoke_without_command=True)
def run_command(context: typer.Context) -> None:
    """Start an engine on a source."""
    if context.invoked_subcommand is None:
        raise UsageError(f"run needs a source: {SOURCES}")


@with_engine_arguments
def demo(
    speed: Annotated[
        float, option("X", "replay speed multiplier (600; --chain: 120)", parse=parse_speed, show_default=False)
    ] = _USUAL_SPEED,
    kafka: Annotated[
        bool, flag("--kafka", "send the flights through a local Kafka broker, started for the demo")
    ] = False,
    flink: Annotated[
        bool, flag("--flink", "send the flights through a local Flink, started for the demo, and attach")
    ] = False,
    chain: Annotated[
        bool, flag("--chain", "a pipeline of Kafka, Spark, Kafka and Flink, and where it loses event time")
    ] = False,
    *,
    engine: EngineArguments,
) -> None:
    """Replay real flights through Spark; the engine stops when you quit."""
    if kafka + flink + chain > 1:
        raise UsageError("give one of --kafka, --flink and --chain")
    if chain:
        from .chain import DEMO_SPEED, demo_chain

        demo_chain(engine, DEMO_SPEED if speed == _USUAL_SPEED else speed)
        return
    speed = _DEMO_SPEED if speed == _USUAL_SPEED else speed
    if has_screen(engine):  # the input is our own: nothing to check before the first paint
        settings_of(engine, live=False)
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
    source = Replay([sample_data.flights()], columns, kept_files(engine), keep=True, speed=speed)
    start(source, engine, live=False, name=DEMO_NAME, inputs=[sample_data.flights()])


def _demo_flink(engine: EngineArguments, speed: float) -> NoReturn:
    from ...engine.targets.flink.demo import DemoFlights, FlightsWatch

    start_ms = parse_time(sample_data.DEMO_START)
    rows = DemoFlights(sample_data.flights(), sample_data.TIME, sample_data.ARRIVAL, sample_data.CHANNEL, start_ms)
    idle_after = or_off(engine.idle_after) or DEFAULT_IDLE_AFTER_MS
    watched = FlightsWatch(
        rows,
        speed=speed,
        lateness_ms=_DEMO_LATENESS_MS if engine.lateness is None else engine.lateness,
        idle_after_ms=max(1_000, int(idle_after / speed)),  # Flink's idle timer uses the clock, not event time
    )
    code = watch(
        watched, engine.name, DEMO_NAME, engine.record, engine.record_keep, engine.verdict_after,
        force=engine.force, once=engine.once, json=engine.json,
    )  # fmt: skip
    raise typer.Exit(code)


def _demo_kafka(engine: EngineArguments, speed: float) -> None:
    from ...engine.kafka.feeder import Feed
    from ...engine.run.sources.kafka import KafkaDemo

    if engine.idle_after == DEFAULT_IDLE_AFTER_MS:
        # Event time advances `speed` times as fast as the clock that idleness uses.
        engine = replace(engine, idle_after=max(1_000, int(DEFAULT_IDLE_AFTER_MS / speed)))
    feed = Feed(
        bootstrap="127.0.0.1:9092",  # of a broker that may already run, used if none can be started
        topic=DEMO_NAME, partitions=6, file=str(sample_data.flights()), time=sample_data.TIME,
        arrival=sample_data.ARRIVAL, channel=sample_data.CHANNEL, speed=speed,
        start_ms=parse_time(sample_data.DEMO_START),
    )  # fmt: skip
    start(KafkaDemo(feed), engine, live=True, name=DEMO_NAME)


@run_app.command("replay", epilog=epilog("run replay"))
@with_engine_arguments
def run_replay(
    file: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE…",
            help="Parquet, CSV or JSON lines files, directories, quoted patterns, or their URIs (s3://…)",
        ),
    ],
    time: TimeColumn,
    channel: ChannelColumn = None,
    arrival: Annotated[str | None, option("COL", "column with the arrival time")] = None,
    time_unit: TimeUnit = "auto",
    speed: Annotated[float | None, option("X|max", "replay speed multiplier, or max (max)", parse=parse_speed)] = None,
    batch_rows: Annotated[int | None, count_option("exactly N rows per batch, for reproducible runs")] = None,
    *,
    engine: EngineArguments,
) -> None:
    """Replay files in order of arrival."""
    from ...engine.run.sources.columns import Columns
    from ...engine.run.sources.data_files import data_files
    from ...engine.run.sources.replay import Replay

    columns = Columns(
        time=time, channel=channel, arrival=arrival, watermark=engine.watermark, marker=engine.marker, unit=time_unit
    )
    places = [place if is_remote(place) else local_path(place) for place in file]
    files = data_files(places)
    local = [place for place in places if isinstance(place, Path)]
    local += [Path(each.path) for each in files if not each.is_remote]
    source = Replay(files, columns, kept_files(engine), keep=True, speed=speed, batch_rows=batch_rows)
    start(source, engine, live=False, name=name_of(_last_name(file[0])), inputs=local)


@run_app.command("files", epilog=epilog("run files"))
@with_engine_arguments
def run_files(
    directory: Annotated[Path, place_argument("DIR", "directory that receives new files", parse_directory_place)],
    time: TimeColumn,
    channel: ChannelColumn = None,
    time_unit: TimeUnit = "auto",
    format: Annotated[Literal["parquet", "csv", "json"] | None, choice("parquet|csv|json", "file format")] = None,
    *,
    engine: EngineArguments,
) -> None:
    """Read new files of a directory as they appear."""
    from ...engine.run.sources.columns import Columns
    from ...engine.run.sources.files import Files

    columns = Columns(time=time, channel=channel, watermark=engine.watermark, marker=engine.marker, unit=time_unit)
    plan = None if engine.state_dir is None else engine.state_dir / "files.log"
    source = Files(directory, columns, as_format=format, once=engine.once, plan=plan)
    start(source, engine, live=True, name=name_of(directory.name), inputs=[directory])


@run_app.command("kafka", epilog=epilog("run kafka"))
@with_engine_arguments
def run_kafka(
    bootstrap: Annotated[str, typer.Argument(metavar="BOOTSTRAP", help="host:port, comma-separated")],
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC…")],
    time: Annotated[
        str, option("PATH|timestamp", "event time: a field of the JSON value, or the record timestamp")
    ] = "timestamp",
    time_unit: TimeUnit = "auto",
    channel: Annotated[
        str, option("partition|key|PATH", "what a channel is: partition, key, or a field of the JSON value")
    ] = "partition",
    from_: Annotated[str, option("earliest|latest|committed|TIME", "where to start reading", "--from")] = "earliest",
    group: Annotated[str | None, option("G", "consumer group of --from committed")] = None,
    reader: Annotated[
        Literal["auto", "connector", "python"], choice("auto|connector|python", "which client reads records")
    ] = "auto",
    max_drift: Annotated[
        int | None, duration_option("pause partitions that are further ahead of the slowest in event time")
    ] = None,
    batch_records: Annotated[int | None, count_option("approximate number of records per batch")] = None,
    kafka_config: Annotated[Path | None, place_option("FILE", "Kafka client properties, e.g. security")] = None,
    *,
    engine: EngineArguments,
) -> None:
    """Read topics of a Kafka cluster."""
    from ...engine.kafka.client_settings import kafka_config as config_of
    from ...engine.run.sources.kafka import Kafka

    begin = _kafka_start(from_)
    if begin == "committed" and group is None:
        raise UsageError("--from committed needs a consumer group: give --group G")
    columns = _kafka_columns(time, time_unit, channel, engine)
    if max_drift is not None and channel != "partition":
        raise UsageError("--max-drift pauses partitions: it needs --channel partition")
    source = Kafka(
        config_of(bootstrap, kafka_config),
        topic,
        columns,
        start=begin,
        group=group,
        reader=reader,
        max_drift_ms=max_drift,
        once=engine.once,
        batch_records=batch_records,
        directory=kept_files(engine),
        keep=engine.state_dir is not None,
        resuming=engine.state_dir is not None and (engine.state_dir / "state.json").exists(),
    )
    start(source, engine, live=True, name=name_of(topic[0]), inputs=[kafka_config] if kafka_config else [])


def _kafka_start(text: str) -> "Start":
    """`--from`: a word, or a time (ms)."""
    if text in ("earliest", "latest", "committed"):
        return text
    try:
        return parse_time(text)
    except ValueError:
        raise UsageError(
            f"--from '{text}' is not known: use earliest, latest, committed or a time, e.g. 2026-01-31T12:00:00Z"
        ) from None


def _kafka_columns(time: str, unit: Unit, channel: str, engine: EngineArguments) -> "KafkaColumns":
    """Where event time and channel are; UsageError for what is not a path."""
    from ...engine.run.sources.kafka_columns import KafkaColumns
    from ...engine.system.json_values import parse_json_path

    return KafkaColumns(
        time=None if time == "timestamp" else parse_json_path(time, "--time"),
        unit=unit,
        channel=channel if channel in ("partition", "key") else parse_json_path(channel, "--channel"),
        watermark=None if engine.watermark is None else parse_json_path(engine.watermark, "--watermark"),
        marker=engine.marker,
    )


@run_app.command("rate", epilog=epilog("run rate"))
@with_engine_arguments
def run_rate(
    channels: Annotated[int, count_option("number of channels")] = 16,
    rows_per_second: Annotated[int, count_option("records per second", "R")] = 1000,
    rows: Annotated[int | None, count_option("end after N rows")] = None,
    for_: Annotated[int | None, duration_option("end after D", "--for")] = None,
    *,
    engine: EngineArguments,
) -> None:
    """Synthetic records, for load tests."""
    from ...engine.run.sources.rate import Rate

    if rows is not None and for_ is not None:
        raise UsageError("--rows and --for both set the end: give one of them")
    if for_ is not None:
        rows = max(rows_per_second * for_ // 1000, 1)
    start(Rate(channels=channels, rows_per_second=rows_per_second, rows=rows), engine, live=True, name="rate")


def _last_name(place: str) -> str:
    """The last part of a path or URI that is not a pattern, without the endings of its name."""
    names = [name for name in re.sub(r"\?[a-z_]+=.*", "", place).split("/") if name and not has_magic(name)]
    return names[-1].split(".")[0] if names else ""
