"""Findings about what is lost, late and dear, in words. Pure."""

from ...engine.core.doctor.costs import Dropped, HungBatch, LatenessTooLarge, LatenessTooSmall, SlowBatches, StateGrows
from ...engine.core.job_line import line_in_job
from .. import formatting as f
from ..screens.picture import Wish
from .words import At, Tellers, Told, n


def _too_small(it: LatenessTooSmall, at: At) -> Told:
    recent = [] if it.recent_share is None else [f"over the last minutes {f.share(it.recent_share)}"]
    needed = it.needed_ms
    remedy = ["the lateness has no value that would help: see when they come (History) and how late (Lateness)"]
    if needed is not None:
        later = "" if it.later_ms is None else f", results {f.duration(max(it.later_ms, 0))} later"
        remedy = [f"{at.change(needed)}: {f.share(it.needed_share)} late{later}"]
    elif it.lateness_ms is None:
        remedy = ["a strategy with lateness (--strategy bounded --lateness D)"]
    return Told(
        "lateness is too small",
        f"{f.share(it.late_share)} of the records are lost ({f.count(it.late)})",
        [
            f"{f.count(it.late)} records came after their windows had closed: {f.share(it.late_share)}",
            *recent,
            f"lateness: {'none' if it.lateness_ms is None else f.setting(it.lateness_ms)}",
        ],
        "Records are later than the watermark allows for; 2.3 % is what two deviations would leave.",
        remedy,
        None if needed is None else Wish(False, needed),
    )


def _dropped(it: Dropped, at: At) -> Told:
    line = line_in_job(at.snapshot, 2 * it.lateness_ms if it.lateness_ms else None)
    return Told(
        "rows are dropped behind the watermark",
        f"≥ {n(it.rows, 'row')} lost",
        [
            f"Spark counts ≥ {n(it.rows, 'row')} dropped, after partial aggregation: a lower bound",
            f"lateness: {f.ELSEWHERE if it.lateness_ms is None else f.setting(it.lateness_ms)}",
        ],
        "They came when the watermark had passed the end of their window.",
        [
            f"a longer delay in the job: {line}, say" if line else "a longer delay in the job's withWatermark",
            "which one: a tap before withWatermark (one line) counts how late they are",
        ],
    )


def _too_large(it: LatenessTooLarge, at: At) -> Told:
    return Told(
        "lateness is larger than needed",
        f"results could come {f.duration(it.sooner_ms)} sooner",
        [
            f"with lateness {f.setting(it.enough_ms)}, {f.share(it.enough_share)} would have been late; "
            f"with {f.setting(it.lateness_ms)} {f.share(it.late_share)} are",
            f"results would have come {f.duration(it.sooner_ms)} sooner, in the mean over all closed windows",
        ],
        "Every window waits for the whole lateness, whether records still come or not.",
        [f"{at.change(it.enough_ms)}: 99.9 % are still on time"],
        Wish(False, it.enough_ms),
    )


_PHASES = {
    "offsets_ms": "asking the sources for offsets",
    "planning_ms": "planning",
    "work_ms": "reading and computing",
    "commit_ms": "committing to the checkpoint",
}
_FASTER = {
    "offsets_ms": "the source answers slowly: fewer files or partitions to list, or a shorter way to the broker",
    "planning_ms": "a simpler plan: fewer unions, fewer columns",
    "work_ms": "more cores, more shuffle partitions than one, or less work for each record",
    "commit_ms": "a faster checkpoint directory: local disk instead of an object store",
}


def _slow(it: SlowBatches, at: At) -> Told:
    grows = it.backlog_per_s
    times = "" if not it.emit_every_ms else f", {it.batch_ms // it.emit_every_ms} times the emit interval"
    part = [] if it.phase is None else [f"{f.share(it.phase_share)} of that is {_PHASES[it.phase]}"]
    rates = [] if it.rows_in is None else [f"{f.rate(it.rows_in)} rows/s come, {f.rate(it.rows_done)} could be done"]
    unread = [] if grows is None else [f"{n(it.backlog, 'record')} unread, {f.rate(grows)} more each second"]
    return Told(
        "batches do not keep up" if grows else "batches are slow",
        f"{n(it.backlog, 'record')} unread, and more each second" if grows
        else f"the level moves only every {f.duration(it.batch_ms)}",
        [f"a batch takes {f.duration(it.batch_ms)} in the middle{times}", *part, *rates, *unread],
        "Watermarks are taken once a batch: while one runs, event time stands and nothing fires.",
        [_FASTER.get(it.phase or "", "more cores, or less work for each record"), *_trigger(at)],
    )  # fmt: skip


def _trigger(at: At) -> list[str]:
    return [] if at.snapshot.origin is None else ["and a trigger interval not shorter than a batch"]


def _hung(it: HungBatch, at: At) -> Told:
    usual = [] if it.usual_ms is None else [f"batches usually take {f.duration(it.usual_ms)}"]
    number = "the batch" if it.batch is None else f"batch {it.batch:,}"
    return Told(
        f"{number} does not end",
        f"nothing has come out for {f.duration(it.age_ms)}",
        [f"{number} began {f.duration(it.age_ms)} ago and is not committed", *usual],
        "It hangs, it replays something large, or the query has died in it: from outside all three look alike.",
        ["look at the query itself: is its process there, what does its log say?"],
    )


def _state(it: StateGrows, at: At) -> Told:
    rows = f"{n(it.rows, 'row')} kept" if it.rows is not None else f"{n(it.windows, 'window')} open"
    grown = [] if it.before_rows is None else [f"{f.count(it.before_rows)} rows {f.duration(it.watched_ms)} ago"]
    explained = "" if it.expected_windows is None else f", where window and lateness explain {it.expected_windows}"
    windows = [] if it.windows is None else [f"{n(it.windows, 'window')} open{explained}"]
    memory = [] if it.bytes is None else [f"{it.bytes / 1_048_576:,.0f} MiB of memory"]
    cause = "Records come for ever newer windows while the level does not follow, so none of the old ones closes."
    remedy = "get the level moving: the holder on the main screen says who stops it, and why"
    if not it.watermark:
        cause = "Without a watermark nothing that is kept is ever let go."
        remedy = "withWatermark before the aggregation"
    return Told("more and more is kept", rows, [rows, *grown, *windows, *memory], cause, [remedy])


TELLERS: Tellers = {
    LatenessTooSmall: _too_small,
    Dropped: _dropped,
    LatenessTooLarge: _too_large,
    SlowBatches: _slow,
    HungBatch: _hung,
    StateGrows: _state,
}
