"""`wmtop export`: follows targets for Prometheus or as JSON, and prints a dashboard and alert rules."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated

import typer
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ...engine.system.errors import RunError, UsageError
from ...engine.targets.fleet import TargetWatch, Watcher
from ...engine.text.formatting import clean
from ..words import metrics as table
from ..words.fleet import RECORDING, SILENT_MS, kind_of
from ..words.metrics import alert_rules, dashboard
from .fleet import age_ms, facts_input, print_lines, watching
from .options import AllTargets, flag, option, target_argument
from .targets import Member, existing, member_of, members

_VERDICT = next(metric for metric in table.METRICS if metric.name == "verdict")
_SUFFIXES = {"gauge": "", "counter": "_total", "info": "_info"}


class FleetCollector(Collector):
    """All metrics of all targets; `clock` gives monotonic seconds."""

    def __init__(self, watcher: Watcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._watcher = watcher
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """The families, with a sample for each value that is known."""
        families = {each.name: Metric(table.PREFIX + each.name, each.help, each.kind) for each in table.all_metrics()}
        for watch in self._watcher.watches():
            for metric, own, value in self._samples(watch):
                family = families[metric.name]
                labels = dict(zip(("target", *metric.labels), (watch.status.name, *own), strict=True))
                family.add_sample(family.name + _SUFFIXES[metric.kind], labels, value)
        return list(families.values())

    def _samples(self, watch: TargetWatch) -> Iterator[tuple[table.Metric, tuple[str, ...], float]]:
        """The values of a target, with the metric's own labels."""
        status = watch.status
        age = age_ms(status, self._clock())
        lost = None if status.has_ended else status.lost  # the state of an ended target is known
        if not status.has_ended and lost is None and age is not None and age > SILENT_MS and status.kind != RECORDING:
            lost = "no answer"
        yield table.UP, (), float(status.snapshot is not None and lost is None)
        kind = status.kind if status.snapshot is None else kind_of(status.kind, status.snapshot)
        yield table.TARGET, (kind or "unknown",), 1.0
        if age is not None:
            yield table.AGE, (), age / 1_000
        given = facts_input(watch, lost)
        if given is None:
            yield _VERDICT, ("unknown",), 1.0
            return
        for metric in table.METRICS:
            if lost is None or metric is _VERDICT:  # a lost target's last values are not its present ones
                yield from ((metric, labels, value) for labels, value in metric.take(given))


def serve_metrics(watcher: Watcher, host: str, port: int) -> int:
    """Serve the metrics from a thread; returns the port (0: any). Text format or OpenMetrics, as the scraper
    requests.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector(watcher))
    server, _ = start_http_server(port, addr=host, registry=registry)
    return int(server.server_port)


LOOPBACK = ("127.0.0.1", "::1", "localhost")
LOOK_S = 0.5
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
    named = [existing(member_of(target)) for target in targets or []]

    def found() -> list[Member]:
        return [*named, *(members() if every else [])]  # with --all also those that appear later

    with watching(found) as watcher:
        if address is not None and not once:
            _serve(watcher, *address)
        stopping = threading.Event()

        def stop(number: int, frame: object) -> None:
            stopping.set()

        for number in () if once else (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, stop)
        threading.Thread(target=_report_lost, args=(watcher, stopping), name="wmtop-lost", daemon=True).start()
        if json or once:
            print_lines(watcher, FIRST_LOOK_S if once else None, stopping)
        else:
            stopping.wait()


def _report_lost(watcher: Watcher, stopping: threading.Event) -> None:
    """Write a line for each target that is lost, once until it is back."""
    reported: set[str] = set()
    while not stopping.wait(LOOK_S):
        for status in (watch.status for watch in watcher.watches()):
            if status.lost is None:
                reported.discard(status.name)
            elif status.name not in reported and not status.has_ended:
                reported.add(status.name)
                typer.echo(f"wmtop: {clean(status.name)} is lost: {clean(status.lost)}; trying again", err=True)


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
