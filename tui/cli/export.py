"""`wmtop export`: follows targets for Prometheus or as JSON, and prints a dashboard and alert rules."""

import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from ...engine.system.errors import RunError, UsageError
from ...engine.targets.fleet import TargetStatus, TargetWatch, Watcher
from ...engine.text.formatting import clean
from ..words import metrics as table
from ..words.fleet import RECORDING, SILENT_MS, kind_of
from ..words.metrics import alert_rules, dashboard
from .fleet import age_ms, facts_input, print_lines, watching
from .options import AllTargets, flag, option, target_argument
from .targets import Member, member_of, members

Family = GaugeMetricFamily | CounterMetricFamily | InfoMetricFamily


class FleetCollector(Collector):
    """All metrics of all targets; `clock` gives monotonic seconds."""

    def __init__(self, watcher: Watcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._watcher = watcher
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """The families, with a sample for each value that is known."""
        families = {metric.name: family_of(metric) for metric in table.all_metrics()}
        for watch in self._watcher.watches():
            self._add(families, watch)
        return list(families.values())

    def _add(self, families: dict[str, Family], watch: TargetWatch) -> None:
        status = watch.status
        age = age_ms(status, self._clock())
        lost = _lost(status, age)
        add_sample(
            families[table.UP.name], table.UP, status.name, (), float(status.snapshot is not None and lost is None)
        )
        kind = status.kind if status.snapshot is None else kind_of(status.kind, status.snapshot)
        add_sample(families[table.TARGET.name], table.TARGET, status.name, (kind or "unknown",), 1.0)
        if age is not None:
            add_sample(families[table.AGE.name], table.AGE, status.name, (), age / 1_000)
        given = facts_input(watch, lost)
        if given is None:
            add_sample(families["verdict"], _VERDICT, status.name, ("unknown",), 1.0)
            return
        for metric in table.METRICS:
            if lost is not None and metric is not _VERDICT:
                continue  # a lost target's last values are not its present ones
            for labels, value in metric.take(given):
                add_sample(families[metric.name], metric, status.name, labels, value)


_VERDICT = next(metric for metric in table.METRICS if metric.name == "verdict")


def _lost(status: TargetStatus, age: int | None) -> str | None:
    """Why the target's present state is unknown; an ended target's is known."""
    if status.has_ended:
        return None
    if status.lost is not None:
        return status.lost
    silent = age is not None and age > SILENT_MS and status.kind != RECORDING
    return "no answer" if silent else None


def family_of(metric: table.Metric) -> Family:
    """An empty family."""
    name = table.PREFIX + metric.name
    labels = ("target", *metric.labels)
    if metric.kind == "counter":
        return CounterMetricFamily(name, metric.help, labels=labels)
    if metric.kind == "info":
        return InfoMetricFamily(name, metric.help, labels=())
    return GaugeMetricFamily(name, metric.help, labels=labels)


def add_sample(family: Family, metric: table.Metric, target: str, labels: tuple[str, ...], value: float) -> None:
    """A value of a target; `labels` are those of the metric's own labels."""
    if isinstance(family, InfoMetricFamily):
        family.add_metric([], dict(zip(("target", *metric.labels), (target, *labels), strict=True)))
    else:
        family.add_metric([target, *labels], value)


def serve_metrics(watcher: Watcher, host: str, port: int) -> int:
    """Serve the metrics from a thread; returns the port (0: any). Text format or OpenMetrics, as the scraper
    requests.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector(watcher))
    server, _ = start_http_server(port, addr=host, registry=registry)
    return int(server.server_port)


LOOPBACK = ("127.0.0.1", "::1", "localhost")
FIRST_LOOK_S = 10.0
"""Longest wait (s) of `--once` for the first snapshots."""


def export(
    targets: Annotated[
        list[str] | None, target_argument("a run, a configured target, or what 'attach' takes", "TARGET…")
    ] = None,
    every: AllTargets = False,
    prometheus: Annotated[
        str | None, option("[HOST]:PORT", "serve metrics, e.g. :9464 (on 127.0.0.1 without HOST)")
    ] = None,
    json: Annotated[bool, flag("--json", "print one JSON line a refresh")] = False,
    once: Annotated[bool, flag("--once", "with --json: print one line and exit")] = False,
    print_dashboard: Annotated[bool, flag("--dashboard", "print a Grafana dashboard (JSON)")] = False,
    print_rules: Annotated[bool, flag("--alert-rules", "print alert rules for Prometheus (YAML)")] = False,
) -> None:
    """Export targets to Prometheus or as JSON lines; print a dashboard and alert rules for them."""
    if print_dashboard or print_rules:
        print(dashboard() if print_dashboard else alert_rules())
        return
    if prometheus is None and not json:
        raise UsageError("export how? Give --prometheus :9464 or --json (or --dashboard, --alert-rules)")
    address = None if prometheus is None else _address(prometheus)
    if not every and not targets:
        raise UsageError("export what? Give a TARGET (a run, a configured target, …) or --all")
    named = [member_of(target) for target in targets or []]

    def found() -> list[Member]:
        return [*named, *(members() if every else [])]  # with --all also those that appear later

    with watching(found) as watcher:
        if address is not None and not once:
            _serve(watcher, *address)
        _run(watcher, json=json, once=once)


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdigit() or not 0 <= int(port) <= 65_535:
        raise UsageError(f"--prometheus '{clean(text)}' is not [HOST]:PORT, e.g. :9464 or 0.0.0.0:9464")
    return host.strip("[]") or LOOPBACK[0], int(port)


def _serve(watcher: Watcher, host: str, port: int) -> None:

    try:
        bound = serve_metrics(watcher, host, port)
    except OSError as error:
        raise RunError(f"--prometheus: cannot listen on {clean(host)} port {port}: {error.strerror or error}") from None
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"metrics: http://{shown}:{bound}/metrics", err=True)
    if host not in LOOPBACK:
        typer.echo("wmtop: anyone who reaches this address can read the names of targets and channels", err=True)


def _run(watcher: Watcher, *, json: bool, once: bool) -> None:
    """Until a signal; print a line each refresh, or one."""
    stopping = threading.Event()

    def stop(number: int, frame: object) -> None:
        stopping.set()

    for number in () if once else (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, stop)
    if json or once:
        print_lines(watcher, FIRST_LOOK_S if once else None, stopping)
    else:
        stopping.wait()
