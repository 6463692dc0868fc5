"""Each row of the table "Job by job" in docs/spark.md, on the jobs that show it: what a cell says is what is shown."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from wmtop.engine.doctor import diagnose
from wmtop.engine.snapshot import STATE_SCHEMA, Snapshot
from wmtop.tui.words.summary import summary

from .conftest import Gallery
from .job import ms
from .jobs import JOBS
from .test_gallery import TAPS, attach, codes, truth_of

PAGE = Path(__file__).parents[2] / "docs/spark.md"
THE_SAME = "the same"


class Look(NamedTuple):
    """One look at a job's query by one tap, and what the job knows itself."""

    job: str
    tap: str
    shown: Snapshot
    truth: dict[str, Any]

    @property
    def delays(self) -> list[int | None]:
        return [node.delay_ms for node in self.shown.spark.nodes or ()]

    @property
    def counts(self) -> list[int | None]:
        return [window.records for window in self.shown.windows.open]

    @property
    def findings(self) -> dict[str, str]:
        return {finding.code: finding.severity for finding in diagnose(self.shown, [])}

    @property
    def is_held_by(self) -> list[int]:
        return [place for place, node in enumerate(self.shown.spark.nodes or ()) if node.holds]

    @property
    def has_windows(self) -> bool:
        """Whether some are known; that they are the right ones, `attach_agrees_with_the_job` says."""
        return bool(self.shown.windows.open)

    @property
    def has_kinds(self) -> bool:
        """Whether the kinds of operators are known: before Spark 4.0 no checkpoint has them."""
        return any(one.kind != "other" for one in self.shown.spark.operators or ())

    @property
    def keeps_no_windows(self) -> bool:
        """Of an operator of no known kind that is so if its rows have no time window."""
        windows = self.shown.windows
        return windows.open_count is None and windows.unknown in ("no_windows", "no_time_window")

    @property
    def has_rows(self) -> bool:
        return self.shown.spark.state_rows == self.truth["state_rows"]

    @property
    def is_of_both(self) -> bool:
        """Whether it has windows of two operators, of one of which all may have been emitted."""
        found = {window.operator for window in self.shown.windows.open}
        return None not in found and len(found) == 2

    @property
    def never_removes(self) -> bool:
        return "state-never-removed" in self.findings

    @property
    def marks_first_delay(self) -> bool:
        """Whether it shows the delay of the first start, which is 10 s in all jobs, and says so."""
        return self.shown.settings.lateness_ms == 10_000 and (self.shown.origin or {})["lateness"] == STATE_SCHEMA


Says = Callable[[Look], bool]
ROWS: dict[str, tuple[str, ...]] = {
    "tumbling, sliding windows; append, update": (
        "tumbling_late", "tumbling_append", "tumbling_update", "sliding_append",
    ),
    "complete mode": ("tumbling_complete",),
    "session windows, also with a gap by key": ("session_append", "sessions_with_a_gap_by_key"),
    "windows with an offset; aggregates without a count": (
        "windows_with_an_offset", "several_aggregates", "sets_in_windows",
    ),
    "event time inside JSON; Python functions behind the watermark": (
        "event_time_inside_json", "python_function_behind_the_watermark",
    ),
    "union of three inputs with delays of their own": ("union_of_three",),
    "join of two windowed aggregates": ("join_of_aggregates",),
    "join restarted with another delay": ("join_restarted_with_another_delay",),
    "stream-stream join, both policies": ("join_min", "join_max"),
    "join input without data": ("join_empty_input",),
    "chain of windows with one watermark": ("chained_windows",),
    "second `withWatermark` on a window's output": ("chained_second_watermark",),
    "watermark after the aggregation, overwritten event-time column, key without the window": (
        "watermark_after_aggregation", "watermark_overwritten", "key_lacks_window",
    ),
    "event times before 1970, or only nulls": ("before_1970", "only_null_times"),
    "one row from the far future": ("one_row_from_the_far_future",),
    "windows above a stream-stream join": ("windows_of_a_join",),
    "`dropDuplicates`, `dropDuplicatesWithinWatermark`": ("dedup", "dedup_within_watermark_late"),
    "`dropDuplicatesWithinWatermark`, then windows": ("dedup_then_windows",),
    "totals by key, complete or update mode, no watermark": ("totals_update", "totals_complete"),
    "`limit`": ("stream_limit",),
    "filter behind `withWatermark`": ("filter_behind_the_watermark",),
    "no watermark": ("no_watermark",),
    "restart with a longer delay": ("restart_longer_delay",),
    "restart with the same delay, older rows first": ("restart_with_older_rows",),
    "restart with a shorter delay": ("restart_shorter_delay",),
    "failed query, also in its first batch": ("failed_query", "failed_in_its_first_batch"),
    "failed, then started again": ("failed_then_restarted",),
    "AvailableNow started again without new data": ("rerun_without_data",),
    "self-join, self-union": ("self_join_with_two_delays", "self_union_with_two_delays"),
    "input that a filter empties": ("filter_empties_an_input",),
    "`transformWithState`, `applyInPandasWithState`": ("transform_with_state", "pandas_state"),
    "RocksDB": ("rocksdb",),
    "deleted checkpoint": ("deleted_checkpoint",),
}  # fmt: skip
ELSEWHERE = {
    "long trigger pause after the first batch (over HTTP; by checkpoint and `publish` *)": (
        "targets/spark/test_over_http.py", "test_a_query_with_a_long_trigger_is_neither_stale_nor_stalled",
    ),
    "continuous processing *": (
        "targets/spark/test_files.py", "test_an_epoch_of_continuous_processing_has_no_time_and_no_watermark",
    ),
}  # fmt: skip
"""Rows without a job in the gallery, and the test that shows them."""


def is_fine(look: Look) -> bool:
    """Whether all that its job knows is shown: the watermark and the windows."""
    return look.shown.level.watermark_ms == look.truth["watermark_ms"] and look.has_windows


def all_batches_emit_all(look: Look) -> bool:
    """Of the four batches; the first three have 4, 7 and 10 keys and windows of `STEADY`, the last one two more."""
    return look.truth["emitted"] == 4 + 7 + 10 + 12 and look.shown.windows.kept == 6 and look.has_windows


SAYS: dict[str, Says] = {
    "windows with counts": lambda look: look.has_windows and None not in look.counts,
    "and output mode, drops": lambda look: (
        (look.shown.spark.output_mode, look.shown.spark.dropped_at_least) == (look.truth["mode"], look.truth["dropped"])
    ),
    "ended windows apart from open ones: they stay in state, every batch emits them": all_batches_emit_all,
    "every session, each key's its own": lambda look: look.shown.windows.open_count == len(look.truth["open"]) > 0,
    "windows; counts only where the query counts": lambda look: (
        look.has_windows and (None in look.counts) == (look.job != "windows_with_an_offset")
    ),
    "as any; the latter's windows stay": lambda look: (
        is_fine(look) and look.shown.windows.kept == (5 if "python" in look.job else None)
    ),
    'the same; "never removes state"': lambda look: look.never_removes == ("python" in look.job),
    "windows; no delay, since the state has one of them": lambda look: (
        look.has_windows and look.shown.settings.lateness_ms is None
    ),
    "each input with its delay; who holds it is not named": lambda look: (
        look.delays == [10_000, 20_000, 5_000] and not look.is_held_by
    ),
    "windows of both operators": lambda look: look.is_of_both,
    "the same, and which input sets the watermark": lambda look: look.is_of_both and look.is_held_by == [1],
    "the old delays, marked so": lambda look: (
        look.delays == [10_000, 20_000] and (look.shown.origin or {})["lateness"] == STATE_SCHEMA
        and summary(look.shown).count(" as first started") == 2
    ),
    "frozen, and for how much event time": lambda look: look.shown.spark.frozen_ms == look.truth["frozen_ms"] > 0,
    "both delays, no windows: `open_count` is null": lambda look: (
        look.delays == [10_000, 20_000] and (look.shown.windows.open_count, look.has_windows) == (None, False)
    ),
    "rows, and which input sets the watermark": lambda look: (
        look.has_rows and look.is_held_by == [look.truth["held_by"]]
    ),
    '"stuck at 1970", the source that has read nothing': lambda look: (
        [note.args["sources"] for note in look.shown.notes if note.code == "watermark_unmoved"] == ["1"]
    ),
    "the input and its column": lambda look: (
        [(node.column, node.sources, node.pinned) for node in look.shown.spark.nodes or ()]
        == [("ts", [0], None), ("ts", [1], "no_input")]
    ),
    '"stuck at 1970"': lambda look: "watermark_unmoved" in codes(look.shown),
    "the column whose watermark can never move": lambda look: (
        [(node.column, node.pinned) for node in look.shown.spark.nodes or ()] == [("end", "own_output"), ("ts", None)]
    ),
    '"never removes state", ended windows that stay': lambda look: (
        look.shown.windows.kept is None and (look.never_removes or not look.has_kinds)
        if look.job == "key_lacks_window"
        else look.shown.windows.kept == 5 and look.never_removes
    ),
    "an empty state": lambda look: look.shown.windows.open_count == 0,
    'which of these it is, "stuck at 1970"': lambda look: (
        "watermark_unmoved" in codes(look.shown)
        and look.shown.spark.unmoved == ("before_1970" if look.job == "before_1970" else "no_event_time")
    ),
    "a watermark ahead of the clock: current rows are dropped": lambda look: (
        "future-timestamps" in look.findings and (look.shown.level.watermark_ms or 0) > (look.shown.now_ms or 0)
        and look.truth["dropped"] == 1
    ),
    "windows with counts; when they close is null: a join with a time bound passes on an earlier watermark than the "
    "query's": lambda look: (
        look.has_windows and None not in look.counts
        and {window.short_ms for window in look.shown.windows.open} == {None}
        and any(window.end_ms <= (look.shown.level.watermark_ms or 0) for window in look.shown.windows.open)
    ),
    "no windows": lambda look: look.keeps_no_windows and look.shown.spark.state_rows is None,
    "keys, no windows": lambda look: look.has_rows and look.keeps_no_windows,
    '"no watermark", or no record has reached it': lambda look: any(
        note.code == "no_watermark" and not note.args.get("sure") for note in look.shown.notes
    ),
    'output mode; update: "keeps state without a watermark", as information': lambda look: (
        look.shown.spark.output_mode == look.truth["mode"]
        and look.findings.get("no-watermark") == ("info" if look.truth["mode"] == "update" else None)
    ),
    "null: it keeps a count": lambda look: (
        look.keeps_no_windows and (look.shown.windows.unknown_args or {}).get("kind") in (None, "limit")
    ),
    "rows in state": lambda look: look.has_rows and look.truth["state_rows"] > 0,
    "the watermark, which only rows that pass drive": lambda look: look.shown.level.watermark_ms == ms(42),
    "the same; a tap counts all rows": lambda look: look.shown.level.watermark_ms == ms(42),
    '"this query has no watermark"': lambda look: any(
        note.code == "no_watermark" and bool(note.args.get("sure")) for note in look.shown.notes
    ),
    "the old delay, marked so": lambda look: look.marks_first_delay,
    "as any": lambda look: look.job == "filter_empties_an_input" or is_fine(look),
    "no longer delay is blamed": lambda look: look.shown.spark.frozen_ms is None and is_fine(look),
    "the new delay": lambda look: look.shown.settings.lateness_ms == 1_000,
    "a batch that has not ended": lambda look: look.shown.spark.in_flight is True,
    "failed, with the reason": lambda look: (
        look.shown.state == "failed" and look.truth["error"] in (look.shown.error or "")
    ),
    "the batches of the second run": lambda look: look.shown.batch == look.truth["batches"] and is_fine(look),
    "the second run: the failure is over": lambda look: (
        look.shown.state == "ended" and look.shown.error is None and look.shown.batch == look.truth["batches"]
    ),
    "watermark and windows as they are": is_fine,
    "ended; watermark and windows as they are": lambda look: look.shown.state == "ended" and is_fine(look),
    "both delays; of the union windows, but no delay, since the state has one of the two": lambda look: (
        look.delays == [10_000, 30_000] and not look.has_windows
        if look.job == "self_join_with_two_delays"
        else look.has_windows and look.shown.settings.lateness_ms is None
    ),
    "which of them holds it back, where their rows or the query's watermark prove it": lambda look: (
        look.is_held_by == [1]
    ),
    "no input is blamed whose time it may not be": lambda look: not look.is_held_by,
    "null: state of its own form; timers of `transformWithState` with `--state-reader spark`": lambda look: (
        look.keeps_no_windows
    ),
    "rows in state; no finding without a watermark: their code removes state": lambda look: (
        look.has_rows and not {"no-watermark", "state-never-removed"} & look.findings.keys()
    ),
    "null, names `--state-reader spark`": lambda look: (
        (look.shown.windows.open_count, look.shown.windows.unknown) == (None, "state_store")
    ),
    "says that it is gone": lambda look: look.shown.windows.open_count is None,
    "null windows": lambda look: look.shown.windows.open_count is None and look.has_rows,
}  # fmt: skip
"""The cells of the table, each with what makes it true."""


def rows_of_the_page() -> dict[str, tuple[str, str]]:
    """First cell of each row, and the other two."""
    section = PAGE.read_text().split("## Job by job")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return {first: (checkpoint, log) for first, checkpoint, log in cells}


def test_every_row_has_jobs_and_every_cell_what_makes_it_true() -> None:
    rows = rows_of_the_page()
    assert rows.keys() == ROWS.keys() | ELSEWHERE.keys()
    assert {job for jobs in ROWS.values() for job in jobs} <= JOBS.keys()
    cells = {cell for row in ROWS for cell in rows[row]} - {THE_SAME}
    assert cells == SAYS.keys()
    for file, test in ELSEWHERE.values():
        assert f"def {test}(" in (PAGE.parents[1] / "tests" / file).read_text()


@pytest.mark.parametrize("tap", TAPS)
@pytest.mark.parametrize(("job", "row"), [(job, row) for row, jobs in ROWS.items() for job in jobs])
def test_a_row_of_the_table_is_so(gallery: Gallery, job: str, row: str, tap: str) -> None:
    truth = truth_of(gallery, job)
    if truth.get("gone") and tap == "checkpoint":
        assert not gallery.checkpoint(job).exists()  # it says so in one line: `what_is_no_checkpoint_is_refused`
        return
    by_checkpoint, by_log = rows_of_the_page()[row]
    cell = by_checkpoint if tap == "checkpoint" or by_log == THE_SAME else by_log
    assert SAYS[cell](Look(job, tap, attach(gallery, job, tap), truth)), cell


@pytest.mark.parametrize("job", JOBS)
def test_what_a_checkpoint_does_not_know_is_null(gallery: Gallery, job: str) -> None:
    """The column `checkpoint` of the table of facts."""
    truth = truth_of(gallery, job)
    if truth.get("gone"):
        return
    shown = attach(gallery, job, "checkpoint")
    spark = shown.spark
    assert (spark.query_name, shown.siblings, spark.run_started_ms) == (None, None, None)
    assert (spark.dropped_at_least, spark.state_rows, spark.max_event_ms) == (None, None, None)
    assert (shown.channels, shown.whatif, [node.holds for node in spark.nodes or () if node.holds]) == ([], None, [])
    assert spark.output_mode in (None, "complete")
    assert False not in [one.evicts for one in spark.operators or () if one.kind not in ("aggregation", "session")]
