"""Findings about the values of the columns of `--explain`, in words. Pure."""

from ....engine.core.doctor.explained import ClockSkew, LateCause
from .. import formatting as f
from .explanation import Context, Explainers, Explanation, n, span


def _skew(it: ClockSkew, context: Context) -> Explanation:
    side = "behind" if it.offset_ms > 0 else "ahead"
    by = span(abs(it.offset_ms if it.zone_ms is None else it.zone_ms))
    others = [f"{n(it.more, 'more value')} with a clock that is off"] if it.more else []
    drift, drifts = it.drift_ms_per_hour, it.drift_ms_per_hour is not None
    if drift is not None:
        others.insert(0, f"It {'loses' if drift > 0 else 'gains'} {span(abs(drift))} an hour")
    why = ": time zone" if it.zone_ms is not None else ": its clock drifts" if drifts else ""
    return Explanation(
        f"{f.clean(it.column)} {f.clean(it.value)} is {by} {side}{why}",
        "Its records are late, or in the wrong windows"
        if it.offset_ms > 0
        else "Its records are in the wrong windows, and may move the watermark ahead of the other records",
        (
            "Its distance from the records that arrive with it changes at a constant rate. "
            if drifts
            else "Its records arrive at a constant distance from their event time that the others do not have. "
        )
        + (
            "A difference of whole quarters of an hour is a time zone: local times are read as UTC."
            if it.zone_ms is not None
            else "Slow delivery varies; a clock that is wrong does not."
        ),
        [
            f"{n(it.records, 'record')}: {f.signed(it.offset_ms)} against most records, nine in ten between "
            f"{f.signed(it.low_ms)} and {f.signed(it.high_ms)}",
            f"Usual spread: {span(it.usual_ms)}",
            *others,
        ],
        ("Who is late", "Lateness"),
    )


def _cause(it: LateCause, context: Context) -> Explanation:
    about = "≈ " if it.approximate else ""
    also = [f"Also {f.clean(column)} {f.clean(value)}: {f.share(share)}" for column, value, share in it.also]
    return Explanation(
        f"{f.clean(it.column)} {f.clean(it.value)} is {f.share(it.late_share)} of the late records",
        f"and {about}{f.share(it.share)} of all: {it.lift:.1f} times its share",
        "What these records have in common delays them: a version, a device, a region, a slow producer.",
        [f"{n(it.late, 'late record')}", f"Lift {it.lift:.1f}, 95 % interval {it.low:.1f} to {it.high:.1f}", *also],
        ("Who is late", "Lateness"),
    )


EXPLAINERS: Explainers = {ClockSkew: _skew, LateCause: _cause}
