"""The fleet as metrics of prometheus-client, computed at each scrape from the watcher's state."""

import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from ....engine.targets.fleet import TargetStatus, TargetWatch, Watcher
from ...words import metrics as table
from ...words.fleet import RECORDING, SILENT_MS, kind_of
from .observe import age_ms, facts_input

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
