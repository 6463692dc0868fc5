"""`wmtop export`: follows targets for Prometheus or as JSON, and prints a dashboard and alert rules."""

import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from typing import Annotated, Any
from wsgiref.simple_server import WSGIRequestHandler

import typer
from prometheus_client import CollectorRegistry, make_wsgi_app  # pyright: ignore[reportUnknownVariableType]
from prometheus_client.core import Metric
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

from ...engine.system.errors import RunError, UsageError
from ...engine.targets.fleet import TargetWatch, Watcher
from ...engine.text.formatting import clean, escaped
from ..words import metrics as table
from ..words.check import check_input
from ..words.fleet import RECORDING, kind_of
from ..words.metrics import alert_rules, dashboard
from .fleet import age_ms, print_lines, watching
from .hosts import LOOPBACK, LOOPBACK_NAMES, is_allowed
from .names import target_argument
from .options import AllTargets, flag, option
from .targets import Member, existing, member_of, members

_VERDICT = next(metric for metric in table.METRICS if metric.name == "verdict")


class FleetCollector(Collector):
    """All metrics of all targets; `clock` gives monotonic seconds."""

    def __init__(self, watcher: Watcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._watcher = watcher
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        """The families, with a sample for each value that is known."""
        families = {each.name: Metric(table.PREFIX + each.name, each.help, each.kind) for each in table.ALL_METRICS}
        for watch in self._watcher.watches():
            for metric, own, value in self._samples(watch):
                family = families[metric.name]
                values = map(escaped, (watch.status.name, *own))
                labels = dict(zip(("target", *metric.labels), values, strict=True))
                family.add_sample(metric.series, labels, value)
        return list(families.values())

    def _samples(self, watch: TargetWatch) -> Iterator[tuple[table.Metric, tuple[str, ...], float]]:
        """The values of a target, with the metric's own labels."""
        status = watch.status
        age = age_ms(status, self._clock())
        lost = None if status.has_ended else status.lost  # the state of an ended target is known
        silent = age is not None and age > status.silent_after_ms and status.kind != RECORDING
        if silent and not status.has_ended and lost is None:
            lost = "no answer"
        yield table.UP, (), float(status.snapshot is not None and lost is None)
        kind = status.kind if status.snapshot is None else kind_of(status.kind, status.snapshot)
        yield table.TARGET, (kind or "unknown",), 1.0
        if age is not None:
            yield table.AGE, (), age / 1_000
        if status.snapshot is None:
            yield _VERDICT, ("unknown",), 1.0
            return
        given = check_input(status.snapshot, watch.points, lost)
        for metric in table.METRICS:
            if lost is None or metric is _VERDICT:  # a lost target's last values are not its present ones
                yield from ((metric, labels, value) for labels, value in metric.take(given))


class _MetricsServer(ThreadingWSGIServer):
    """Answers `MAX_SCRAPES` requests at once; a further one ends the oldest: a scraper's takes milliseconds."""

    def __init__(self, address: tuple[str, int], handler: type[WSGIRequestHandler]) -> None:
        self.address_family = socket.getaddrinfo(*address, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        self._open: dict[socket.socket, None] = {}
        super().__init__(address, handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._open) >= MAX_SCRAPES:
            with suppress(OSError, StopIteration, RuntimeError):  # it ends at this moment
                next(iter(self._open)).shutdown(socket.SHUT_RDWR)
        self._open[request] = None
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A request that was not completed is nothing to report."""


class _Handler(WSGIRequestHandler):
    timeout = 5.0

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is logged."""


def serve_metrics(watcher: Watcher, host: str, port: int, further: Collection[str] = ()) -> int:
    """Serve the metrics from a thread, also under the `further` names; returns the port (0: any)."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FleetCollector(watcher))
    metrics: Callable[..., Iterable[bytes]] = make_wsgi_app(registry)  # pyright: ignore[reportUnknownVariableType]

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        # A site in a browser can point its own name at this server (DNS rebinding), which is then in `host`. It has no
        # address, no name without a dot, and none of the `further` names: Prometheus scrapes pods and hosts by those.
        host = environ.get("HTTP_HOST", "")
        if not host or is_allowed(host, "::", further) or _ONE_LABEL.fullmatch(host) is not None:
            return metrics(environ, start_response)
        start_response("403 Forbidden", [("Content-Type", "text/plain")])
        return [b"this host name is not allowed; start wmtop export with --allow-host NAME\n"]

    server = _MetricsServer((host, port), _Handler)
    server.set_app(answer)
    threading.Thread(target=server.serve_forever, name="wmtop-metrics", daemon=True).start()
    return server.server_port


MAX_SCRAPES = 16
"""Requests for metrics at once, at most."""
_ONE_LABEL = re.compile(r"[A-Za-z0-9_-]+(?::\d+)?")
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
    allow_host: Annotated[
        list[str] | None, option("NAME", "with --prometheus: a further host name of this server; may be repeated")
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
            _serve(watcher, *address, allow_host or [])
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
    if not re.fullmatch("[0-9]{1,5}", port) or int(port) > 65_535:
        raise UsageError(f"--prometheus '{clean(text)}' is not [HOST]:PORT, e.g. :9464 or 0.0.0.0:9464")
    return host.strip("[]") or LOOPBACK, int(port)


def _serve(watcher: Watcher, host: str, port: int, allowed: list[str]) -> None:
    try:
        bound = serve_metrics(watcher, host, port, [host, *allowed])
    except OSError as error:
        raise RunError(f"--prometheus: cannot listen on {clean(host)} port {port}: {error.strerror or error}") from None
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"metrics: http://{shown}:{bound}/metrics", err=True)
    if host not in LOOPBACK_NAMES:
        typer.echo("wmtop: anyone who reaches this address can read the names of targets and channels", err=True)
