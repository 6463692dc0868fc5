"""Flink jobs as a kind of target: `flink://HOST:PORT[/JOB]`, or the URL of the REST API or of the web UI."""

from typing import TYPE_CHECKING

from ..follow import AttachedTarget
from ..own import name_of
from ..target import Kind, TargetOptions

if TYPE_CHECKING:  # the Kafka client is loaded where there is a broker to ask
    from .kafka import KafkaJoin

SCHEMES = ("flink://", "http://", "https://")


def _open(address: str, options: TargetOptions) -> AttachedTarget:
    """The job must exist: if there are several, their list is printed before there is a screen."""
    from .rest import RestSecurity
    from .watch import FlinkWatch, place_of

    url, wanted = place_of(address)
    security = RestSecurity(options.ca_file, options.client_cert, options.auth_file)
    watch = FlinkWatch(url, wanted, options.operator, security, _broker_of(options))
    watch.open()
    return AttachedTarget(watch, name_of(watch.job_name))


def _broker_of(options: TargetOptions) -> "KafkaJoin | None":
    """The Kafka cluster that the job reads from, where its user names one."""
    if options.bootstrap is None:
        return None
    from ...kafka.client_settings import kafka_config
    from ..topic.kind import time_path
    from .kafka import KafkaJoin

    return KafkaJoin(kafka_config(options.bootstrap, options.kafka_config), time_path(options.time))


FLINK = Kind(
    "flink",
    lambda address: address.startswith(SCHEMES),
    _open,
    reads=("operator", "ca_file", "client_cert", "auth_file", "bootstrap", "time", "kafka_config"),
    where="for flink://",
    joined="for a Flink job",
)
