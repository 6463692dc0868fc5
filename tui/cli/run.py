"""`wmtop demo` and `wmtop run SOURCE`: each makes its source and starts an engine on it."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from ... import sample_data
from ...engine.errors import UsageError
from .arguments import DEFAULT_IDLE_AFTER_MS, EngineArguments, duration_option, parsed, with_engine_arguments
from .engines import has_screen, name_of, settings_for, show, staging, start
from .kafka import kafka_columns, kafka_config_of, kafka_start
from .options import parse_duration, parse_speed, parse_time

run_app = typer.Typer(help="Start an engine on a source.", rich_markup_mode=None, no_args_is_help=False)
DEMO_NAME = "flights"


@run_app.callback(invoke_without_command=True)
def run_command(context: typer.Context) -> None:
    """Start an engine on a source."""
    if context.invoked_subcommand is None:
        raise UsageError("run what? 'wmtop run replay FILE… --time COL', 'run files DIR --time COL' or 'run rate'")


@with_engine_arguments
def demo(
    engine: EngineArguments,
    speed: Annotated[
        float, typer.Option(parser=parsed(parse_speed), metavar="X", help="how fast (600)", show_default=False)
    ] = 600.0,
    kafka: Annotated[bool, typer.Option("--kafka", help="through a real Kafka broker, started for it")] = False,
) -> None:
    """Real flights replayed through Spark, live; the engine stops when you quit."""
    if has_screen(engine):  # the input is our own: nothing to check before the first paint
        settings_for(engine, live=False)
        show(engine, DEMO_NAME, "stop")
        return
    # With few rows a batch the JVM's optimising compiler costs more than it saves: it doubles the start's work.
    engine = replace(engine, conf=["spark.driver.extraJavaOptions=-XX:TieredStopAtLevel=1", *(engine.conf or [])])
    if kafka:
        _demo_kafka(engine, speed)
        return
    from ...engine.pipeline.sources.columns import Columns
    from ...engine.pipeline.sources.replay import Replay

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
    start(source, engine, live=False, name=DEMO_NAME)


def _demo_kafka(engine: EngineArguments, speed: float) -> None:
    from ...engine.pipeline.sources.kafka_demo import DemoRows, KafkaDemo

    if engine.idle_after == DEFAULT_IDLE_AFTER_MS:
        # Event time goes `speed` times as fast as the clock by which idleness goes.
        engine = replace(engine, idle_after=max(1_000, int(DEFAULT_IDLE_AFTER_MS / speed)))
    rows = DemoRows(sample_data.flights(), sample_data.TIME, sample_data.ARRIVAL, sample_data.CHANNEL)
    source = KafkaDemo(DEMO_NAME, rows, speed=speed, start_ms=parse_time(sample_data.DEMO_START))
    start(source, engine, live=True, name=DEMO_NAME)


@run_app.command("replay")
@with_engine_arguments
def run_replay(
    engine: EngineArguments,
    file: Annotated[list[Path], typer.Argument(metavar="FILE…", help="Parquet, CSV or JSON lines")],
    time: Annotated[str, typer.Option(metavar="COL", help="the event time")],
    channel: Annotated[str | None, typer.Option(metavar="COL", help="the channel")] = None,
    arrival: Annotated[str | None, typer.Option(metavar="COL", help="when the record arrived")] = None,
    time_unit: Annotated[str, typer.Option(metavar="ms|s|us|ns", help="of times that are numbers")] = "ms",
    speed: Annotated[
        float | None,
        typer.Option(parser=parsed(parse_speed), metavar="X|max", help="seconds of arrival time a second (max)"),
    ] = None,
    batch_rows: Annotated[int | None, typer.Option(metavar="N", help="exactly N rows a batch: reproducible")] = None,
) -> None:
    """Replay files in the order of arrival."""
    from ...engine.pipeline.sources.columns import Columns
    from ...engine.pipeline.sources.replay import Replay

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
    source = Replay(file, columns, directory, keep=keep, speed=speed, batch_rows=rows)
    start(source, engine, live=False, name=name_of(file[0].name.split(".")[0]))


@run_app.command("files")
@with_engine_arguments
def run_files(
    engine: EngineArguments,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="a directory that grows")],
    time: Annotated[str, typer.Option(metavar="COL", help="the event time")],
    channel: Annotated[str | None, typer.Option(metavar="COL", help="the channel")] = None,
    time_unit: Annotated[str, typer.Option(metavar="ms|s|us|ns", help="of times that are numbers")] = "ms",
    format: Annotated[str | None, typer.Option(metavar="parquet|csv|json", help="what the files are")] = None,
) -> None:
    """Follow a directory that grows."""
    from ...engine.pipeline.sources.columns import Columns
    from ...engine.pipeline.sources.files import Files

    if format not in (None, "parquet", "csv", "json"):
        raise UsageError(f"--format '{format}' is not known: use parquet, csv or json")
    columns = Columns(
        time=time, channel=channel, watermark=engine.watermark, marker=engine.marker, unit=_unit(time_unit)
    )
    source = Files(directory, columns, as_format=format, once=engine.once)
    start(source, engine, live=True, name=name_of(directory.name))


@run_app.command("kafka")
@with_engine_arguments
def run_kafka(
    engine: EngineArguments,
    bootstrap: Annotated[str, typer.Argument(metavar="BOOTSTRAP", help="host:port, several with commas")],
    topic: Annotated[list[str], typer.Argument(metavar="TOPIC…")],
    time: Annotated[
        str, typer.Option(metavar="PATH|timestamp", help="the event time: a field of a JSON value, or the record's own")
    ] = "timestamp",
    time_unit: Annotated[
        str, typer.Option(metavar="auto|ms|s|us|ns", help="of times that are numbers (auto: by their size)")
    ] = "auto",
    channel: Annotated[
        str, typer.Option(metavar="partition|key|PATH", help="what a channel is: partition, key, or a field")
    ] = "partition",
    from_: Annotated[
        str, typer.Option("--from", metavar="earliest|latest|committed|TIME", help="where to begin")
    ] = "earliest",
    group: Annotated[
        str | None, typer.Option(metavar="G", help="whose committed offsets --from committed takes")
    ] = None,
    reader: Annotated[str, typer.Option(metavar="auto|connector|python", help="who reads")] = "auto",
    max_drift: Annotated[
        int | None, duration_option("hold back partitions that run ahead of the slowest by more")
    ] = None,
    batch_records: Annotated[int | None, typer.Option(metavar="N", help="about how many records a batch takes")] = None,
    kafka_config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Kafka client properties: security and the like")
    ] = None,
) -> None:
    """Watch topics of a Kafka cluster."""
    from ...engine.pipeline.sources.kafka import Kafka

    if reader not in ("auto", "connector", "python"):
        raise UsageError(f"--reader '{reader}' is not known: use auto, connector or python")
    begin = kafka_start(from_)
    if begin == "committed" and group is None:
        raise UsageError("--from committed needs to know whose offsets: give --group G")
    columns = kafka_columns(time, time_unit, channel, engine)
    if max_drift is not None and channel != "partition":
        raise UsageError("--max-drift holds back partitions: it needs --channel partition")
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
    start(source, engine, live=True, name=name_of(topic[0]))


@run_app.command("rate")
@with_engine_arguments
def run_rate(
    engine: EngineArguments,
    channels: Annotated[int, typer.Option(metavar="N", help="how many channels")] = 16,
    rows_per_second: Annotated[int, typer.Option(metavar="R", help="how fast")] = 1000,
    rows: Annotated[int | None, typer.Option(metavar="N", help="end after N rows")] = None,
    for_: Annotated[
        int | None, typer.Option("--for", parser=parsed(parse_duration), metavar="D", help="end after D")
    ] = None,
) -> None:
    """Synthetic records, for load tests."""
    from ...engine.pipeline.sources.rate import Rate

    if rows is not None and for_ is not None:
        raise UsageError("--rows and --for both say where to end: give one of them")
    if for_ is not None:
        rows = rows_per_second * for_ // 1000
    source = Rate(
        channels=_at_least_one("--channels", channels) or 0,
        rows_per_second=_at_least_one("--rows-per-second", rows_per_second) or 0,
        rows=_at_least_one("--rows", rows),
    )
    start(source, engine, live=True, name="rate")


def _unit(text: str) -> Literal["ms", "s", "us", "ns"]:
    if text not in ("ms", "s", "us", "ns"):
        raise UsageError(f"--time-unit '{text}' is not known: use ms, s, us or ns")
    return text


def _at_least_one(option: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise UsageError(f"{option} {value}: must be at least 1, e.g. {option} 1000")
    return value
