"""Findings about batches and state, in words. Pure."""

from ....engine.doctor.batches import HungBatch, SlowBatches, StateGrows
from ....engine.text import formatting as f
from .explanation import Context, Explainers, Explanation, n, span

_PHASES = {
    "offsets_ms": "asking the sources for offsets",
    "planning_ms": "planning",
    "work_ms": "reading and computing",
    "commit_ms": "committing to the checkpoint",
}


def _slow(it: SlowBatches, context: Context) -> Explanation:
    grows = it.backlog_per_s
    times = "" if not it.emit_every_ms else f", {it.batch_ms // it.emit_every_ms:,} times the emit interval"
    part = [] if it.phase is None else [f"{f.share(it.phase_share)} of that: {_PHASES[it.phase]}"]
    can = "" if it.rows_done is None else f", {f.rate(it.rows_done)} can be processed"
    rates = [] if it.rows_in is None else [f"{f.rate(it.rows_in)} rows/s come{can}"]
    unread = [] if grows is None else [f"Backlog: {n(it.backlog, 'record')}, {f.rate(grows)} more each second"]
    waits, why = "The watermark advances", "The watermark advances once a batch: while one runs, no window fires."
    if context.snapshot.spark.has_watermark is False:
        waits, why = "Results appear", "The results of a batch appear when it ends."
    return Explanation(
        "Batches do not keep up" if grows else "Batches are slow",
        f"Backlog of {n(it.backlog, 'record')}, and growing" if grows else f"{waits} only every {span(it.batch_ms)}",
        why,
        [f"Median batch: {span(it.batch_ms)}{times}", *part, *rates, *unread],
        ("Progress",),
    )


def _hung(it: HungBatch, context: Context) -> Explanation:
    usual = [] if it.usual_ms is None else [f"Median batch: {span(it.usual_ms)}"]
    number = "The batch" if it.batch is None else f"Batch {it.batch:,}"
    return Explanation(
        f"{number} does not end",
        f"No results for {span(it.age_ms)}",
        "It hangs, it processes something large, or the query has died in it: from outside these look alike.",
        [f"{number} began {span(it.age_ms)} ago and is not committed", *usual],
        ("Progress",),
    )


def _state(it: StateGrows, context: Context) -> Explanation:
    rows = f"{n(it.rows, 'row')} in state" if it.rows is not None else n(it.windows, "open window")
    grown = [] if it.before_rows is None else [f"{f.count(it.before_rows)} rows {span(it.watched_ms)} ago"]
    expected = "" if it.expected_windows is None else f"; window and lateness account for {it.expected_windows}"
    windows = [] if it.windows is None else [n(it.windows, "open window") + expected]
    memory = [] if it.bytes is None else [f"{it.bytes / 1_048_576:,.0f} MiB of memory"]
    cause = "Records open new windows while the watermark does not follow, so that no old one closes."
    if not it.watermark:
        cause = "Without a watermark no state is ever released."
    return Explanation("State keeps growing", rows, cause, [rows, *grown, *windows, *memory], ("Progress", "Windows"))


EXPLAINERS: Explainers = {SlowBatches: _slow, HungBatch: _hung, StateGrows: _state}
