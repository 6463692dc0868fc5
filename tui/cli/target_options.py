"""The options of commands that look at a target, Kafka's among them."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...engine.system.errors import UsageError
from ...engine.targets.target import TargetOptions
from .options import EngineArguments, duration_option, off_option, parse_time

if TYPE_CHECKING:
    from ...engine.kafka.client_settings import KafkaConfig
    from ...engine.run.sources.kafka import KafkaColumns, Start


def kafka_start(text: str) -> "Start":
    """`--from`: a word, or a time (ms)."""
    if text in ("earliest", "latest", "committed"):
        return text
    try:
        return parse_time(text)
    except ValueError:
        raise UsageError(
            f"--from '{text}' is not known: use earliest, latest, committed or a time, e.g. 2026-01-31T12:00:00Z"
        ) from None


def kafka_columns(time: str, unit: str, channel: str, engine: EngineArguments) -> "KafkaColumns":
    """Where event time and channel are; UsageError for what is not a path or unit."""
    from ...engine.run.sources.kafka import KafkaColumns
    from ...engine.system.json_path import parse_json_path

    if unit not in ("auto", "ms", "s", "us", "ns"):
        raise UsageError(f"--time-unit '{unit}' is not known: use auto, ms, s, us or ns")
    return KafkaColumns(
        time=None if time == "timestamp" else parse_json_path(time, "--time"),
        unit=None if unit == "auto" else unit,
        channel=channel if channel in ("partition", "key") else parse_json_path(channel, "--channel"),
        watermark=None if engine.watermark is None else parse_json_path(engine.watermark, "--watermark"),
        marker=engine.marker,
    )


def kafka_config_of(bootstrap: str, file: Path | None) -> "KafkaConfig":
    """How to reach the cluster, with the security settings of `--kafka-config FILE` and the environment."""
    from ...engine.kafka.client_settings import kafka_config

    return kafka_config(bootstrap, file)


if TYPE_CHECKING:
    from ...engine.targets.spark.watch import WindowsTap

TARGET_OPTIONS: dict[str, Any] = {
    "group": Annotated[str | None, typer.Option(metavar="G", help="kafka: the consumer group to watch")],
    "bootstrap": Annotated[
        str | None, typer.Option(metavar="B", help="query, flink: the Kafka cluster that it reads from")
    ],
    "time": Annotated[
        str | None,
        typer.Option(metavar="PATH", help="kafka: the JSON field with the event time (the record's timestamp)"),
    ],
    "lateness": Annotated[int | None, duration_option("kafka: max out-of-orderness of the watermarks shown (0s)")],
    "idle_after": Annotated[
        int | None,
        off_option("kafka: idle timeout: a partition without records for D no longer holds back the watermark (2h)"),
    ],
    "kafka_config": Annotated[
        Path | None, typer.Option(metavar="FILE", help="kafka: client properties, for example for TLS and SASL")
    ],
    "query": Annotated[
        str | None, typer.Option(metavar="NAME", help="event log, published query: the query to show, by name or id")
    ],
    "operator": Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="flink: the operator whose inputs are shown (the windows nearest the sources)"
        ),
    ],
    "ca_file": Annotated[Path | None, typer.Option(metavar="FILE", help="flink: certificate authorities, PEM")],
    "client_cert": Annotated[
        Path | None, typer.Option(metavar="FILE", help="flink: a client certificate with its key, PEM")
    ],
    "auth_file": Annotated[
        Path | None, typer.Option(metavar="FILE", help="flink: a file with a bearer token or user:password")
    ],
    "state_reader": Annotated[
        str | None, typer.Option(metavar="none|files|spark", help="query: how to read its state (files)")
    ],
}
"""The options by parameter, in the order of `--help`."""
OF_CHECKS = ("bootstrap", "time", "group", "kafka_config", "query")
"""The options of `check` and `report`."""


def with_target_options(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command that takes `options: TargetOptions` the options of these names in its place."""

    def with_options(command: Callable[..., None]) -> Callable[..., None]:
        keyword = inspect.Parameter.KEYWORD_ONLY
        parameters: list[inspect.Parameter] = []
        for each in inspect.signature(command, eval_str=True).parameters.values():
            if each.name == "options":
                parameters += [
                    inspect.Parameter(name, keyword, default=None, annotation=TARGET_OPTIONS[name]) for name in names
                ]
            else:
                parameters.append(each.replace(kind=keyword))

        @functools.wraps(command)
        def run(**values: Any) -> None:
            given = {name: values.pop(name) for name in names}
            command(options=target_options(**given), **values)

        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return with_options


def target_options(**given: Any) -> TargetOptions:
    """The options by parameter; None or missing: not given."""
    return TargetOptions(**given, spark_reader=functools.partial(spark_windows, waits=True))


def spark_windows(path: Path, *, waits: bool) -> "WindowsTap":
    """Reads a checkpoint's state with Spark; `waits`: each poll waits for it."""
    from ...engine.run.state_reader import SparkWindows

    return SparkWindows(path, waits=waits)
