"""The table of metrics, each with meaning, panel and alert; Grafana's dashboard and Prometheus' rules from it. Pure."""

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct

from ...engine.doctor import Severity
from ...engine.snapshot import ChannelState, ChannelView, Clock, VerdictName
from .check import FACTS, KINDS_OF_FACTS, CheckInput
from .clocks import behind_ms, ranked
from .kinds import presenter_of

PREFIX = "wmtop_"
TOP_CHANNELS = 20
"""Channels of a target with series of their own, at most; all others share `OTHER`."""
OTHER = "other"
Labels = tuple[str, ...]
Sample = tuple[Labels, float]
"""The values of the metric's own labels (`target` comes first everywhere and is not among them), and the value."""
MetricKind = Literal["gauge", "counter", "info"]
Unit = Literal["seconds", "ratio", "records", ""]


class Alert(Struct, frozen=True):
    """An alert rule: `expr` in PromQL, how long it must hold, and its text (a template of Prometheus)."""

    name: str
    expr: str
    hold: str
    severity: str
    summary: str


class Metric(Struct, frozen=True):
    """One metric: `name` has neither prefix nor `_total`; `labels` besides `target`."""

    name: str
    kind: MetricKind
    help: str
    take: Callable[[CheckInput], Iterator[Sample]] = lambda given: iter(())
    unit: Unit = ""
    labels: Labels = ()
    panel: str | None = None
    """The title of its panel; None: it has none."""
    alert: Alert | None = None

    @property
    def series(self) -> str:
        """The name of its samples."""
        ending = {"counter": "_total", "info": "_info", "gauge": ""}[self.kind]
        return PREFIX + self.name + ending


def _one(value: float | str | None, scale: float = 1.0) -> Iterator[Sample]:
    if value is not None and not isinstance(value, str):
        yield (), value * scale


def _total(name: str) -> Callable[[CheckInput], Iterator[Sample]]:
    return lambda given: _one(getattr(given.snapshot.totals, name))


def _counts(names: tuple[str, ...], values: Sequence[str]) -> Iterator[Sample]:
    """How many of the values are each of the names."""
    return (((name,), float(values.count(name))) for name in names)


def _fact(name: str, scale: float = 1.0) -> Callable[[CheckInput], Iterator[Sample]]:
    return lambda given: _one(FACTS[name].take(given), scale)


def _states(given: CheckInput) -> Iterator[Sample]:
    states = [view.state for view in given.snapshot.channels]
    return _counts(get_args(ChannelState), states) if states else iter(())


def _held_back(given: CheckInput) -> Iterator[Sample]:
    holder = given.snapshot.level.holder
    if holder is not None:
        yield (holder.channel, holder.cause), 1.0


def _by_channel(
    given: CheckInput, of: Callable[[ChannelView], int | None], combined: Callable[[list[int]], int], per: int = 1
) -> Iterator[Sample]:
    """The known values of the channels most behind, and of all others combined, if all of theirs are known."""
    known = [view for view in given.snapshot.channels if view.watermark_ms is not None]
    ranked = sorted((view for view in known if view.channel != OTHER), key=lambda view: view.watermark_ms or 0)
    for view in ranked[:TOP_CHANNELS]:
        if (value := of(view)) is not None:
            yield (view.channel,), value / per
    others = [of(view) for view in (*ranked[TOP_CHANNELS:], *(view for view in known if view.channel == OTHER))]
    values = [value for value in others if value is not None]
    if values and len(values) == len(others):
        yield (OTHER,), combined(values) / per


def _channel_lags(given: CheckInput) -> Iterator[Sample]:
    now = given.snapshot.now_ms
    return _by_channel(given, lambda view: None if now is None else now - (view.watermark_ms or 0), max, 1_000)


def _by_task(given: CheckInput, of: Callable[[Clock], int | None]) -> Iterator[Sample]:
    """The known values (ms) of the worst clocks, as seconds."""
    for clock in ranked(given.snapshot.clocks)[:TOP_CHANNELS]:
        if (value := of(clock)) is not None:
            yield (clock.task or ",".join(clock.channels),), value / 1_000


def _other_facts(given: CheckInput) -> Iterator[Sample]:
    """The numbers that no table of wmtop names in advance."""
    for name, value in presenter_of(given.snapshot).named_facts().items():
        if name not in KINDS_OF_FACTS and isinstance(value, int | float):
            yield (name,), value


METRICS: tuple[Metric, ...] = (
    Metric("verdict", "gauge", "1 for the verdict on event time: moving, slow, stalled, waiting, unknown or ended.",
           lambda given: _counts(get_args(VerdictName), [given.verdict]), labels=("verdict",), panel="Verdict",
           alert=Alert("WmtopStalled", 'wmtop_verdict{verdict="stalled"} == 1', "1m", "critical",
                       "{{ $labels.target }}: the watermark does not advance")),
    Metric("watermark_timestamp_seconds", "gauge", "The watermark, as a Unix time.",
           lambda given: _one(given.snapshot.level.watermark_ms, 0.001), "seconds"),
    Metric("watermark_lag_seconds", "gauge", "How far the watermark is behind the clock (processing time).",
           _fact("level_lag", 0.001), "seconds", panel="Watermark lag behind the clock"),
    Metric("watermark_behind_fastest_seconds", "gauge", "How far the watermark is behind the fastest channel.",
           _fact("behind_fastest", 0.001), "seconds", panel="Watermark behind the fastest channel"),
    Metric("watermark_stalled_seconds", "gauge", "How long the watermark has not advanced; 0 unless it is stalled.",
           _fact("stalled_for", 0.001), "seconds", panel="Stalled for"),
    Metric("watermark_speed_ratio", "gauge", "Event time that the watermark advances by, per processing time.",
           _fact("speed"), "ratio", panel="Watermark speed"),
    Metric("held_back", "info", "The channel that holds back the watermark, and why.", _held_back,
           labels=("channel", "cause")),
    Metric("held_back_seconds", "gauge", "How long the present channel has held back the watermark.",
           _fact("holder_for", 0.001), "seconds"),
    Metric("records", "counter", "Records read.", _total("records"), panel="Records per second"),
    Metric("late_records", "counter", "Records dropped because all their windows were closed.", _total("late"),
           panel="Late records per second"),
    Metric("behind_watermark_records", "counter", "Records whose event time was behind the watermark.",
           _total("behind_watermark")),
    Metric("malformed_records", "counter", "Records without a usable event time.", _total("malformed")),
    Metric("future_records", "counter", "Records that claimed a time too far ahead of the clock.", _total("future")),
    Metric("late_recent_ratio", "gauge", "Of the records of the last minutes, the share that was late.",
           _fact("late_share_recent"), "ratio", panel="Late share",
           alert=Alert("WmtopLate", "wmtop_late_recent_ratio > 0.01", "5m", "warning",
                       "{{ $labels.target }}: {{ $value | humanizePercentage }} of the records are late")),
    Metric("backlog_records", "gauge", "Records that are not read yet.", _fact("backlog"), "records",
           panel="Backlog"),
    Metric("backlog_seconds", "gauge", "How far the worst channel is read behind its end, in event time.",
           _fact("backlog_time", 0.001), "seconds"),
    Metric("channels", "gauge", "Channels by state.", _states, labels=("state",), panel="Channels by state"),
    Metric("windows_open", "gauge", "Windows that have not fired.", _fact("open_windows"), panel="Open windows"),
    Metric("windows_fired", "counter", "Windows that have fired.",
           lambda given: _one(given.snapshot.windows.fired)),
    Metric("window_late_firings", "counter", "Firings for late records, within the allowed lateness.",
           lambda given: _one(given.snapshot.windows.late_firings)),
    Metric("batch_duration_seconds", "gauge", "How long the last micro-batch took.", _fact("batch_time", 0.001),
           "seconds", panel="Batch duration"),
    Metric("lateness_seconds", "gauge", "The max out-of-orderness (watermark delay) in force.",
           lambda given: _one(given.snapshot.settings.lateness_ms, 0.001), "seconds"),
    Metric("idle_timeout_seconds", "gauge", "The idle timeout in force; absent where it is off or not known.",
           lambda given: _one(given.snapshot.settings.idle_after_ms, 0.001), "seconds"),
    Metric("findings", "gauge", "Findings of the doctor by severity.",
           lambda given: _counts(get_args(Severity), [one.severity for one in given.findings]), labels=("severity",),
           panel="Findings"),
    Metric("channel_watermark_lag_seconds", "gauge",
           f"How far a channel's watermark is behind the clock: the {TOP_CHANNELS} most behind, and the worst of the "
           f"{OTHER}.", _channel_lags, "seconds", labels=("channel",), panel="Channels: lag behind the clock"),
    Metric("stream_time_lag_seconds", "gauge",
           f"Kafka Streams: how far a task's stream time is behind the clock, of the {TOP_CHANNELS} worst tasks.",
           lambda given: _by_task(given, lambda task: behind_ms(given.snapshot, task)), "seconds", labels=("task",),
           panel="Kafka Streams: tasks behind the clock"),
    Metric("stream_time_age_seconds", "gauge",
           "How long the stream time of the same tasks has not advanced, at least.",
           lambda given: _by_task(given, lambda task: task.age_ms), "seconds", labels=("task",)),
    Metric("channel_backlog_records", "gauge",
           f"Unread records of the same channels, and of all {OTHER}.",
           lambda given: _by_channel(given, lambda view: view.backlog, sum), "records",
           labels=("channel",)),
    Metric("other_fact", "gauge", "A fact that only a plug-in's target has, in the plug-in's unit.",
           _other_facts, labels=("fact",)),
)  # fmt: skip
UP = Metric("up", "gauge", "1: the target is seen; 0: it is lost, or has not answered yet.",
            panel="Targets seen",
            alert=Alert("WmtopTargetLost", "wmtop_up == 0", "5m", "critical",
                        "{{ $labels.target }}: nothing is seen of it"))  # fmt: skip
AGE = Metric("snapshot_age_seconds", "gauge", "How long ago the target last said something.", unit="seconds")
TARGET = Metric("target", "info", "What the target is.", labels=("kind",))
OF_EVERY_TARGET = (UP, AGE, TARGET)
"""Metrics about the watching itself, also present if nothing is known about the target."""
FURTHER_ALERTS = (
    Alert("WmtopSlow", 'wmtop_verdict{verdict="slow"} == 1', "10m", "warning",
          "{{ $labels.target }}: event time loses ground"),
    Alert("WmtopUnknown", 'wmtop_verdict{verdict="unknown"} == 1', "10m", "warning",
          "{{ $labels.target }}: whether event time moves is not known"),
    Alert("WmtopCritical", 'wmtop_findings{severity="critical"} > 0', "5m", "critical",
          "{{ $labels.target }}: {{ $value }} critical findings; see wmtop check {{ $labels.target }}"),
)  # fmt: skip


ALL_METRICS = (*OF_EVERY_TARGET, *METRICS)
ALERTS = (*(metric.alert for metric in ALL_METRICS if metric.alert is not None), *FURTHER_ALERTS)
_UNITS = {"seconds": "s", "ratio": "percentunit", "records": "short", "": "short"}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 8


def dashboard() -> str:
    """The dashboard as JSON, for import into Grafana."""
    shown = [metric for metric in ALL_METRICS if metric.panel is not None]
    content: dict[str, Any] = {
        "title": "wmtop: stream watermarks",
        "uid": "wmtop",
        "tags": ["wmtop", "watermark"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"},
                {
                    "name": "target",
                    "label": "Target",
                    "type": "query",
                    "datasource": _SOURCE,
                    "query": {"query": "label_values(wmtop_up, target)", "refId": "targets"},
                    "multi": True,
                    "includeAll": True,
                    "refresh": 2,
                },
            ]
        },
        "panels": [_panel(place, metric) for place, metric in enumerate(shown)],
    }
    return json.dumps(content, indent=2)


def alert_rules() -> str:
    """Prometheus's rule file (YAML)."""
    return "groups:\n  - name: wmtop\n    rules:" + "".join(
        f"""
      - alert: {alert.name}
        expr: {json.dumps(alert.expr)}
        for: {alert.hold}
        labels:
          severity: {alert.severity}
        annotations:
          summary: {json.dumps(alert.summary)}"""
        for alert in ALERTS
    )


def _panel(place: int, metric: Metric) -> dict[str, Any]:
    row, column = divmod(place, _COLUMNS)
    unit = "short" if metric.name == "watermark_speed_ratio" else _UNITS[metric.unit]
    legend = " ".join(f"{{{{{label}}}}}" for label in ("target", *metric.labels))
    return {
        "id": place + 1,
        "title": metric.panel,
        "description": metric.help,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": unit}, "overrides": []},
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": query_of(metric), "legendFormat": legend}],
    }


def query_of(metric: Metric) -> str:
    """The query of its panel (PromQL)."""
    chosen = f'{metric.series}{{target=~"$target"}}'
    if metric.kind == "counter":
        return f"rate({chosen}[$__rate_interval])"
    return f"{chosen} == 1" if metric.name == "verdict" else chosen
