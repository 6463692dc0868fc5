"""Topics and consumer groups as a kind of target: `kafka://BOOTSTRAP/TOPIC`."""

from ...system.errors import UsageError, one_line
from ...system.json_path import JsonPath, parse_json_path
from ..follow import AttachedTarget
from ..own import name_of
from ..target import Kind, TargetOptions

SCHEME = "kafka://"
_IDLE_AFTER_MS = 7_200_000


def _open(address: str, options: TargetOptions) -> AttachedTarget:
    from ...kafka.client_settings import kafka_config
    from .consumer import TopicWatch

    bootstrap, _, topic = address.removeprefix(SCHEME).partition("/")
    if not bootstrap or not topic or "/" in topic:
        raise UsageError(f"{one_line(address)} is not kafka://BOOTSTRAP/TOPIC, e.g. kafka://localhost:9092/orders")
    idle_after_ms = _IDLE_AFTER_MS if options.idle_after is None else options.idle_after
    watch = TopicWatch(
        kafka_config(bootstrap, options.kafka_config),
        topic,
        group=options.group,
        path=time_path(options.time),
        lateness_ms=options.lateness or 0,
        idle_after_ms=None if idle_after_ms < 0 else idle_after_ms,
    )
    return AttachedTarget(watch, name_of(options.group or topic))


def time_path(time: str | None) -> JsonPath | None:
    """The place of event time: a field of the value; None: the record's own timestamp."""
    return None if time in (None, "timestamp") else parse_json_path(time, "--time")


TOPIC = Kind(
    "topic",
    lambda address: address.startswith(SCHEME),
    _open,
    reads=("group", "lateness", "idle_after", "time", "kafka_config"),
    where="for kafka://",
)
