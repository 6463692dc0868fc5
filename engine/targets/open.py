"""The one way from an address to a target: kinds in the order in which an address is tried, then plug-ins."""

import time
from collections.abc import Callable

from ..system.errors import UsageError
from .own import check_address, is_recording, own_run, scheme_of
from .plugin import open_plugin, plugins
from .spark.kind import SPARK
from .target import NO_OPTIONS, Kind, NothingThereError, NotReadyError, OpenedTarget, TargetOptions

READY_WITHIN_S, ASK_AGAIN_S = 15.0, 0.5
"""Seconds for which a target that starts is waited for (a History Server looks for logs every 10 s), between tries."""


def _flink(address: str, options: TargetOptions) -> OpenedTarget:
    from .flink.watch import open_job

    return open_job(address, options)


def _spark_over_http(address: str, options: TargetOptions) -> OpenedTarget:
    from .spark.kind import open_over_http

    return open_over_http(address, options)


def _topic(address: str, options: TargetOptions) -> OpenedTarget:
    if "/" not in address.removeprefix("kafka://").rstrip("/"):
        from .streams.watch import open_group

        return open_group(address, options)
    from .topic.consumer import open_topic

    return open_topic(address, options)


KINDS = (
    Kind(
        "flink",
        lambda address: address.startswith(("flink://", "http://", "https://")),
        _flink,
        reads=("operator", "ca_file", "client_cert", "auth_file", "bootstrap", "time", "kafka_config"),
        where="for flink://",
        joined="for a Flink job",
    ),
    Kind(
        "spark",
        lambda address: address.startswith(("spark+http://", "spark+https://")),
        _spark_over_http,
        reads=("ca_file", "client_cert", "auth_file", "query"),
        where="for spark+http://",
    ),
    Kind(
        "topic",
        lambda address: address.startswith("kafka://"),
        _topic,
        reads=("group", "lateness", "idle_after", "window", "grace", "time", "kafka_config"),
        where="for kafka://",
    ),
)
"""What an address that is not a run's or a recording's may be, in order; else it is a plug-in's, else a Spark query."""


def open_target(
    address: str,
    options: TargetOptions = NO_OPTIONS,
    configured: TargetOptions = NO_OPTIONS,
    *,
    runs: bool = True,
    say: Callable[[str], object] = lambda line: None,
) -> OpenedTarget:
    """What an address leads to: a running engine (with `runs`), a recording, or a target of another program.

    Options that are not given are those `configured`. A target that starts is waited for, and `say` gets a line
    about it. UsageError or RunError if there is no such target, it cannot be reached, or an option has no effect on it.
    """
    if (own := own_run(check_address(address), runs=runs)) is not None:
        return own
    kind = next((kind for kind in KINDS if kind.has(address)), None)
    scheme = scheme_of(address) if kind is None else None
    plugin = None if scheme is None else plugins().get(scheme)
    options = options.over(configured)
    if plugin is not None:
        return open_plugin(plugin, address, options)
    kind = kind or SPARK
    options.only(kind.reads, kind.where, kind.joined)
    until, has_said = time.monotonic() + READY_WITHIN_S, False
    while True:
        try:
            return kind.open(address, options)
        except NotReadyError as error:
            if time.monotonic() >= until:
                raise
            if not has_said:
                say(f"{error}; waiting up to {READY_WITHIN_S:g}s")
            has_said = True
            time.sleep(ASK_AGAIN_S)
        except NothingThereError:
            from .discover import nothing_there

            raise UsageError(nothing_there(address)) from None


def kind_at(address: str) -> str:
    """The word for the kind of a target, as far as its address shows it."""
    if is_recording(address):
        return "recording"
    return next((kind.name for kind in KINDS if kind.has(address)), "")
