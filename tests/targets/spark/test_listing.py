"""What `wmtop attach` without a target lists of a job that publishes."""

import os
from pathlib import Path

import pytest
from wmtop.engine.targets.open import Found
from wmtop.engine.targets.spark.facts import Application, QueryStarted, QueryTerminated
from wmtop.engine.targets.spark.queries import Queries
from wmtop.engine.targets.spark.reports import Published
from wmtop.tui.cli.running import list_all


def test_a_failed_query_is_listed_beside_those_that_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = Queries()
    for name in ("orders", "returns", "old"):
        queries.apply(QueryStarted(f"id-{name}", f"run-{name}", name, "2026-01-01T00:00:00.000Z"))
    queries.apply(QueryTerminated("id-returns", "run-returns", "java.lang.IllegalStateException: no such customer"))
    queries.apply(QueryTerminated("id-old", "run-old", None))
    said = Application(alive=True, app="shop", app_id=None, pid=os.getpid(), written_ms=0, queries=queries.facts())
    none: list[Found] = []
    monkeypatch.setattr(
        "wmtop.engine.targets.spark.reports.list_published", lambda: [Published("shop", Path("x"), said)]
    )
    monkeypatch.setattr("wmtop.engine.targets.open.discover", lambda places: none)
    monkeypatch.setattr("wmtop.tui.cli.running.lines_of_runs", list)
    list_all()
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.split()[0] for line in lines] == ["orders", "returns"]
    assert "failed" not in lines[0]
    assert lines[1].endswith("failed: IllegalStateException: no such customer")
