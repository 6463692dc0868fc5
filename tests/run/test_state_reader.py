"""Windows that Spark itself reads: what could not be read is not known, and never none."""

from pathlib import Path
from typing import Any

from wmtop.engine.run.state_reader import SparkWindows
from wmtop.engine.targets.spark.operators import windows_of


def test_state_that_could_not_be_read_is_not_known() -> None:
    gone: Any = None  # a session that is no more
    found = SparkWindows(Path("checkpoint"))._operator(gone, 0, 7)
    shown = windows_of([found], None, None, 5, "no_state")
    assert (shown.open_count, shown.unknown) == (None, "spark_unreadable")
