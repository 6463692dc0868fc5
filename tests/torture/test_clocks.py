"""The short form of `make torture PART=j`, and that what a clock must not do is noticed."""

import random
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from wmtop.engine.targets.spark.clock import DriverClock

from . import clocks
from .clocks import Torture
from .rounds import TortureError, short


def test_clocks_change_no_verdict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Torture, "_probe", Torture._watch)
    assert short(Torture(tmp_path), 7, 6)["rounds"] == 6


@pytest.mark.parametrize("lives", [True, False])
def test_the_liveness_probe_restarts_only_a_dead_query(lives: bool) -> None:
    counts, seed = Counter[str](), 0
    with TemporaryDirectory(prefix="wmtop-", dir="/tmp") as directory:  # a socket's path is short
        while not counts[f"probes of a {'live' if lives else 'dead'} query"]:
            Torture(Path(directory))._probe(random.Random(seed), counts)
            seed += 1


def test_a_clock_that_is_not_measured_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DriverClock, "see_facts", lambda *_: None)
    monkeypatch.setattr(clocks, "drawn_skew", lambda chance: -clocks.HOUR)
    with pytest.raises(TortureError, match="a live query"):
        Torture(tmp_path)._watch(random.Random(1), Counter())
    monkeypatch.setattr(clocks, "drawn_skew", lambda chance: clocks.HOUR)
    with pytest.raises(TortureError, match=r"negative age|a dead query|no note"):
        Torture(tmp_path)._watch(random.Random(1), Counter())
