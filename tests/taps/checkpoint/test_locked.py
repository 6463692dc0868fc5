"""State that may not be read: it is named, and never taken for none."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.taps.checkpoint.checkpoint import CheckpointTap
from wmtop.engine.taps.checkpoint.open_windows import OpenWindowsTap

OFFSETS = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"spark.sql.shuffle.partitions":"1"}}
{"logOffset":0}"""


@pytest.mark.parametrize("locked", ["state", "state/0"])
def test_a_locked_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: str) -> None:
    for name, content in {
        "metadata": '{"id":"0db1f5ce-e2ee-4b8c-a8ac-6b3b6a3cbdcf"}',
        "offsets/0": OFFSETS,
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "state/0/_metadata/metadata": "v1\n{}",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    facts = CheckpointTap(tmp_path).poll()
    place = tmp_path / locked

    def refusing(ask: Callable[..., Any], itself: bool) -> Callable[..., Any]:  # as root nothing is locked
        def run(path: Any, *more: Any, **named: Any) -> Any:
            if f"{path}".startswith(f"{place}/") or (itself and Path(path) == place):
                raise PermissionError(13, "Permission denied", str(path))
            return ask(path, *more, **named)

        return run

    for call, itself in {"stat": False, "open": False, "listdir": True}.items():
        monkeypatch.setattr(os, call, refusing(getattr(os, call), itself))
    [found] = OpenWindowsTap(tmp_path).poll(facts)
    assert found.reason is not None
    assert found.reason.code == "unreadable"
    assert f"cannot read {place}" in str(found.reason.args["why"])
    assert "Permission denied" in str(found.reason.args["why"])
