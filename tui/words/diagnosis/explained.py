"""Findings about the values of the columns of `--explain`, in words. Pure."""

from ....engine.doctor.explained import LateCause
from ....engine.text import formatting as f
from .explanation import Context, Explainers, Explanation, n


def _cause(it: LateCause, context: Context) -> Explanation:
    about = "≈ " if it.approximate else ""
    also = [f"Also {f.clean(column)} {f.clean(value)}: {f.share(share)}" for column, value, share in it.also]
    return Explanation(
        f"{f.clean(it.column)} {f.clean(it.value)} is {f.share(it.late_share)} of the late records",
        f"and {about}{f.share(it.share)} of all: {it.lift:.1f} times its share",
        "What these records have in common delays them: a version, a device, a region, a slow producer, or a "
        "clock that is behind.",
        [f"{n(it.late, 'late record')}", f"Lift {it.lift:.1f}, 95 % interval {it.low:.1f} to {it.high:.1f}", *also],
        ("Who is late", "Lateness"),
    )


EXPLAINERS: Explainers = {LateCause: _cause}
