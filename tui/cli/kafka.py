"""Kafka options: where to start reading, what a channel is, how to reach the cluster."""

from pathlib import Path
from typing import TYPE_CHECKING

from ...engine.system.errors import UsageError
from .arguments import EngineArguments
from .options import parse_time

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
