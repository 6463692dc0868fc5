"""The firings file starts new, or continues what its own run had written; nothing else is ever cut."""

import errno
import os
import resource
import signal
from pathlib import Path

import pytest
from wmtop.engine.run.durable_state import FiringsFile
from wmtop.engine.system.errors import RunError, UsageError
from wmtop.engine.watermarks.window_operator import Firing

from ..refusals import refused

LINE = b'{"mine":1}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "firings.ndjson"


def firing(batch: int) -> Firing:
    return Firing(
        kind="fire", batch=batch, channel=None, start_ms=0, end_ms=1, records=1, firings=1, watermark_ms=2, ended=False
    )


@pytest.mark.parametrize("known", [0, len(LINE)])
def test_an_existing_file_is_refused_and_stays_as_it_is(path: Path, known: int) -> None:
    path.write_bytes(LINE * 3)
    with refused(UsageError, "exists", path):
        FiringsFile(path, known)
    assert path.read_bytes() == LINE * 3


def test_it_is_replaced_only_when_asked(path: Path) -> None:
    path.write_bytes(LINE * 3)
    FiringsFile(path, 0, "replace").close()
    assert path.read_bytes() == b""


def test_a_resumed_run_continues_after_what_its_state_knows(path: Path) -> None:
    path.write_bytes(LINE * 3)
    file = FiringsFile(path, len(LINE) * 2, "continue")
    assert file.size == len(LINE) * 2
    file.append([firing(7)])
    file.close()
    assert path.read_bytes().startswith(LINE * 2 + b'{"kind":"fire","batch":7,')


@pytest.mark.parametrize("content", [None, LINE, b"another file of this very length, or longer\nand more"])
def test_a_file_that_is_not_the_one_it_wrote_is_refused(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.write_bytes(content)
    for existing in ("continue", "replace"):
        with refused(UsageError, "not_its_file", path):
            FiringsFile(path, len(LINE) * 2, existing)  # type: ignore[arg-type]
    assert content == (path.read_bytes() if path.exists() else None)


def test_a_full_disk_names_the_file(path: Path) -> None:
    file = FiringsFile(path, 0)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        with refused(RunError, "unwritable", path, os.strerror(errno.EFBIG)):
            file.append([firing(1)])
        file.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
