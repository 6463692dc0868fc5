"""Findings about lateness, in words. Pure."""

from ....engine.doctor.lateness import Dropped, LatenessTooLarge, LatenessTooSmall
from ....engine.text import formatting as f
from ..lateness import horizon_words
from .explanation import Context, Explainers, Explanation, n, span


def _too_small(it: LatenessTooSmall, context: Context) -> Explanation:
    recent = [] if it.recent_share is None else [f"In the last minutes: {f.share(it.recent_share)}"]
    evidence = [
        f"{f.count(it.late)} records came after their windows had closed: {f.share(it.late_share)} since the start",
        *recent,
        f"Lateness: {'none' if it.lateness_ms is None else f.setting(it.lateness_ms)}",
    ]
    if it.horizon_ms is not None:
        evidence.append(f"The fix is judged by the records of the {horizon_words(it.horizon_ms)}")
    if it.burst:
        return Explanation(
            "A burst of late records",
            f"{f.share(it.recent_share)} of the records of the last minutes are dropped",
            "Records come far later than they usually do: a delayed producer, a replay, a channel back from an outage.",
            evidence,
            ("History", "Lateness"),
        )
    return Explanation(
        "Lateness is too small",
        f"{f.share(it.late_share)} of the records are dropped ({f.count(it.late)})",
        "Records come later than the watermark allows for.",
        evidence,
        ("Lateness",),
    )


def _dropped(it: Dropped, context: Context) -> Explanation:
    cause = "They came after the watermark had passed the end of their window."
    if it.restarted:
        cause = "After the restart with a longer delay the watermark stays where the shorter one had put it."
        if it.frozen_ms:
            cause += f" It advances again when event time has caught up by {span(it.frozen_ms)}."
    behind = [] if it.behind_ms is None else [f"The earliest was {span(it.behind_ms)} behind the newest event time"]
    return Explanation(
        "Spark drops rows behind the watermark",
        f"≥ {n(it.rows, 'row')} lost",
        cause,
        [
            f"Spark counts ≥ {n(it.rows, 'row')} dropped, after partial aggregation: a lower bound",
            *behind,
            f"Watermark delay: {f.ELSEWHERE if it.lateness_ms is None else f.setting(it.lateness_ms)}",
        ],
        ("Operators", "Progress"),
    )


def _too_large(it: LatenessTooLarge, context: Context) -> Explanation:
    closed = "on average over all closed windows" if not it.withheld else "no window has fired yet"
    impact = f"Results could come {span(it.sooner_ms)} sooner"
    if it.withheld:
        impact = f"No result yet: {n(it.withheld, 'window')} would have fired with {f.setting(it.enough_ms)}"
    return Explanation(
        "Lateness is larger than needed",
        impact,
        "Every window waits for the whole lateness, whether records still come or not.",
        [
            f"Late with lateness {f.setting(it.enough_ms)}: {f.share(it.enough_share)}, "
            f"with {f.setting(it.lateness_ms)}: {f.share(it.late_share)} ({horizon_words(it.horizon_ms)})",
            f"Results {span(it.sooner_ms)} sooner, {closed}",
        ],
        ("Lateness",),
    )


EXPLAINERS: Explainers = {LatenessTooSmall: _too_small, Dropped: _dropped, LatenessTooLarge: _too_large}
