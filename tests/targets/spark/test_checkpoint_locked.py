"""State that may not be read, or has gone: it is named, and never taken for none."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from wmtop.engine.snapshot import SourceView
from wmtop.engine.system.errors import UsageError
from wmtop.engine.targets.spark.checkpoint import CheckpointTap, check
from wmtop.engine.targets.spark.open_windows import OpenWindowsTap
from wmtop.engine.targets.spark.watch import QueryWatch

from ...refusals import refused

OFFSETS = """v1
{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{"spark.sql.shuffle.partitions":"1"}}
{"logOffset":0}"""


def write(checkpoint: Path) -> None:
    for name, content in {
        "metadata": '{"id":"0db1f5ce-e2ee-4b8c-a8ac-6b3b6a3cbdcf"}',
        "offsets/0": OFFSETS,
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "state/0/_metadata/metadata": "v1\n{}",
    }.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(content)


def test_a_checkpoint_that_is_deleted_meanwhile_is_gone_and_not_without_state(tmp_path: Path) -> None:
    place = tmp_path / "checkpoint"
    write(place)
    watch = QueryWatch(SourceView("checkpoint", str(place)), checkpoint=place)
    watch.open()
    try:
        assert watch.picture("q", watch.poll(), 1_700_000_001_000).snapshot.state == "live"
        shutil.rmtree(place)
        shown = watch.picture("q", watch.poll(), 1_700_000_002_000).snapshot
    finally:
        watch.close()
    assert (shown.state, shown.batch) == ("stale", 0)
    assert str(place) in str(shown.notes[0].args["why"])
    assert shown.windows.unknown == "vanished"


def test_batches_that_may_not_be_listed_are_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path)
    check(tmp_path)
    listed = os.listdir

    def refusing(path: Path) -> list[str]:  # as root nothing is locked
        if Path(path).name == "offsets":
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "listdir", refusing)
    with refused(UsageError, "unreadable", tmp_path / "offsets", "Permission denied"):
        check(tmp_path)


@pytest.mark.parametrize("locked", ["state", "state/0"])
def test_a_locked_directory_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, locked: str) -> None:
    write(tmp_path)
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
