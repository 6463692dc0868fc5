"""A Grafana dashboard and Prometheus alert rules, generated from the table of metrics. Pure."""

import json
from typing import Any

from .metrics import Metric, alerts, all_metrics

_UNITS = {"seconds": "s", "ratio": "percentunit", "records": "short", "": "short"}
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_COLUMNS, _WIDTH, _HEIGHT = 2, 12, 8


def dashboard() -> str:
    """The dashboard as JSON, for import into Grafana."""
    shown = [metric for metric in all_metrics() if metric.panel is not None]
    content: dict[str, Any] = {
        "title": "wmtop: stream watermarks",
        "uid": "wmtop",
        "tags": ["wmtop", "watermark"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [_datasource(), _targets()]},
        "panels": [_panel(place, metric) for place, metric in enumerate(shown)],
    }
    return json.dumps(content, indent=2)


def alert_rules() -> str:
    """Prometheus's rule file (YAML)."""
    lines = ["groups:", "  - name: wmtop", "    rules:"]
    for alert in alerts():
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expr)}",
            f"        for: {alert.hold}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
        ]
    return "\n".join(lines)


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}


def _targets() -> dict[str, Any]:
    return {
        "name": "target",
        "label": "Target",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": "label_values(wmtop_up, target)", "refId": "targets"},
        "multi": True,
        "includeAll": True,
        "refresh": 2,
    }


def _panel(place: int, metric: Metric) -> dict[str, Any]:
    row, column = divmod(place, _COLUMNS)
    speed = metric.name == "watermark_speed_ratio"
    return {
        "id": place + 1,
        "title": metric.panel,
        "description": metric.help,
        "type": "timeseries",
        "datasource": _SOURCE,
        "gridPos": {"x": column * _WIDTH, "y": row * _HEIGHT, "w": _WIDTH, "h": _HEIGHT},
        "fieldConfig": {"defaults": {"unit": "short" if speed else _UNITS[metric.unit]}, "overrides": []},
        "targets": [{"refId": "A", "datasource": _SOURCE, "expr": query_of(metric), "legendFormat": _legend(metric)}],
    }


def query_of(metric: Metric) -> str:
    """The query of its panel (PromQL)."""
    chosen = f'{metric.series}{{target=~"$target"}}'
    if metric.kind == "counter":
        return f"rate({chosen}[$__rate_interval])"
    return f"{chosen} == 1" if metric.name == "verdict" else chosen


def _legend(metric: Metric) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in ("target", *metric.labels))
