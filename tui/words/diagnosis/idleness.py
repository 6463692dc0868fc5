"""Findings about idleness, in words. Pure."""

from ....engine.doctor.idleness import FlappingIdleness, IdleTimeoutTooLong, LateAfterIdle
from ....engine.text import formatting as f
from .explanation import Context, Explainers, Explanation, n, names, only, span, verb


def _flapping(it: FlappingIdleness, context: Context) -> Explanation:
    lost = f"{n(it.late, 'record')} of {'it' if len(it.channels) == 1 else 'them'} late so far"
    return Explanation(
        f"{names(it.channels)} {verb(it.channels, 'turns', 'turn')} idle again and again",
        lost if it.late else "None of their records is late so far",
        "The idle timeout is about as long as the channels' usual pause: the watermark advances without them, and "
        "what they send next can be late.",
        [
            f"{n(it.flaps, 'change')} between active and idle since the start",
            f"Idle every {span(it.round_ms)}, with an idle timeout of {f.setting(it.idle_after_ms)}",
            lost,
        ],
        ("Lateness",),
        only(it.channels),
    )


def _late_after_idle(it: LateAfterIdle, context: Context) -> Explanation:
    tried = "switched off" if it.try_idle_ms is None else f"of {f.setting(it.try_idle_ms)}"
    return Explanation(
        f"{names(it.channels)} {verb(it.channels, 'returns', 'return')} from idle too late",
        f"{n(it.saved, 'record')} lost that a longer idle timeout would have kept",
        "A channel that pauses for longer than the idle timeout no longer holds back the watermark; the records it "
        "sends next find their windows closed.",
        [
            f"{f.share(it.late_share)} of the records of these channels are late ({f.count(it.late)}), "
            f"{f.share(it.others_share)} of all others",
            f"With the idle timeout {tried}, {f.count(it.saved)} fewer would have been late",
            f"Idle timeout: {f.setting(it.idle_after_ms)}",
        ],
        ("Lateness",),
        only(it.channels),
    )


def _too_long(it: IdleTimeoutTooLong, context: Context) -> Explanation:
    idle = f.setting(it.idle_after_ms)
    return Explanation(
        f"The idle timeout of {idle} is far longer than any pause",
        f"{names(it.channels)} held back the watermark for {idle} before turning idle",
        "A channel that stops holds back the watermark for the whole idle timeout.",
        [
            f"Longest pause after which a channel came back: {span(it.longest_pause_ms)}",
            f"Idle now: {names(it.channels)}",
        ],
        ("Lateness",),
        only(it.channels),
    )


EXPLAINERS: Explainers = {FlappingIdleness: _flapping, LateAfterIdle: _late_after_idle, IdleTimeoutTooLong: _too_long}
