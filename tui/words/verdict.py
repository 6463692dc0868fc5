"""The verdict in words: whether event time moves, since when, which channels block it, and what to do. Pure."""

from collections.abc import Collection, Sequence
from datetime import tzinfo
from itertools import accumulate, takewhile

from msgspec import Struct
from msgspec.structs import replace

from ...engine.doctor import Finding, Severity, accounts_for
from ...engine.doctor.kinds.kafka_streams_words import clock_name, frees_words, stuck_title, windows_wait
from ...engine.snapshot import Cause, Snapshot, Verdict, VerdictName
from ...engine.text import formatting as f
from ...engine.text.codes import CAUSES
from ...engine.text.formatting import NAME_CELLS, name
from ...engine.verdict.preview import ProposedSetting, now_gain_ms
from ...engine.verdict.verdict import lost_state, verdict_of
from .keys import hint
from .kinds import presenter_of
from .naming import NAMED, count_of, does, named
from .spans import Part, lay, part
from .verdict_words import STYLES, WORDS
from .watermark import ahead_elsewhere, worst_clock

STALE_AFTER_MS = 3_000
"""Time (ms) without a snapshot after which an engine's state is not known."""
NAMED_CELLS = 16
"""Cells for their names, at most, except the first."""
_SHORT_NAME = 10
"""Cells for the only name where there is not enough room for the others."""
MAX_OF_IT = 0.9
"""The share of the watermark's lag that the blamed channels explain."""
FEW_SECONDS_MS = 12_000
"""Advances are counted at most every 10 s, and seen up to 2 s late: a pace up to this is `every few seconds`."""
SLOW_SPEED = 0.8
"""Event time per processing time below which the speed is worth a word."""
_COST = 2
"""The rank of a fix's gain and price: who is blamed and the fix are shortened before these are left out."""
AS_A_WHOLE = "records come, the watermark is stuck"
"""A stall for which no channel is to blame."""
REASONS: dict[str | None, str] = {
    "no_records": "no records, no backlog: check the producers",
    "all_idle": "all channels are idle, no records: check the producers",
    "starting": "the engine is starting",
    "source_silent": "nothing new is reported",
    "paused": "the source is paused",
    "not_known": "whether it stalls is not known from here",
}
"""The reasons of a verdict whose words need no numbers."""


class Blame(Struct, frozen=True):
    """Who holds back the watermark and how: `F9, YV have no data`, `F9 +1: no data` or just `F9 +1`."""

    words: str
    short: str
    shortest: str


class Offer(Struct, frozen=True):
    """The setting that fixes the problem, how far the watermark advances with it, and its price."""

    proposed: ProposedSetting
    gain_ms: int | None
    """At the next emit, or where that is not known (not `at_once`) had it been set from the start."""
    price: str | None = None
    at_once: bool = True


def offer_of(snapshot: Snapshot, findings: Sequence[Finding]) -> Offer | None:
    """The first fix that a screen can preview; the findings are in order, the worst first.

    For a bad verdict only findings that account for it: another lateness does not bring back a dead channel's data.
    """
    verdict = snapshot.verdict.verdict
    if verdict in ("stalled", "slow"):
        findings = [found for found in findings if accounts_for(found, verdict)]
    for fix in (fix for found in findings for fix in found.fixes):
        if (proposed := fix.proposed) is not None:
            gain_ms = now_gain_ms(snapshot, proposed) if fix.promise_ms is None else fix.promise_ms
            return Offer(proposed, fix.gain_ms if gain_ms is None else gain_ms, fix.price, gain_ms is not None)
    return None


def seen_verdict(snapshot: Snapshot, *, lost: str | None = None, silent_ms: int | None = None) -> Verdict:
    """The verdict for a screen to show `silent_ms` after the last snapshot; `lost`: why no more will come."""
    if lost is None and (silent_ms is None or silent_ms <= STALE_AFTER_MS):
        return verdict_of(snapshot)
    return verdict_of(snapshot, lost=lost_state(snapshot) or "engine_lost")


def verdict_parts(
    snapshot: Snapshot,
    findings: Sequence[Finding] = (),
    *,
    offer: Offer | None = None,
    lost: str | None = None,
    silent_ms: int | None = None,
    key: str | None = None,
    zone: tzinfo | None = None,
) -> list[Part]:
    """The verdict's line: word, age, reason with the first finding, what waits, fix (`key` previews it)."""
    verdict = seen_verdict(snapshot, lost=lost, silent_ms=silent_ms)
    style = style_of(verdict.verdict, {found.severity for found in findings})
    age = age_words(verdict) if verdict.verdict in ("stalled", "waiting") else None
    parts = [part((f" ● {WORDS[verdict.verdict]}", style), *([(f" {age}", style)] if age else []))]
    text_style = "text" if style in (STYLES["moving"], STYLES["ended"]) else style
    reasons, headline = _reason(snapshot, verdict, findings, silent_ms), findings[0].title if findings else None
    blamed, who = verdict.verdict in ("stalled", "slow"), _blamed(snapshot, findings)
    critical = None if headline is None or headline in reasons or findings[0].severity != "critical" else headline
    if critical is not None and not blamed:
        reasons.insert(0, critical)
    reasons += _what_waits(snapshot, zone) if verdict.verdict in ("stalled", "waiting") else []
    for place, text in enumerate(reasons):
        line = part((text, text_style), rank=place, gap=" · " if place else "  ")
        if who is not None and text == who.words:
            short, shortest = ((who.short, text_style),), ((who.shortest, text_style),)
            line = replace(line, short=short, shortest=shortest, short_rank=_COST)
        elif (short := _shorter(verdict, text)) != text:
            line = replace(line, short=((short, text_style),))
        parts.append(line)
    usual = usually(verdict)
    if age is not None and usual is not None:
        parts.insert(1, part((f"({usual})", "dim"), rank=4, gap="  "))
    if blamed:
        parts += _cost_and_fix(snapshot, findings, offer, key)
        holder, worst = snapshot.level.holder, findings[0] if critical is not None else None
        is_named = worst is not None and holder is not None and holder.channel in worst.channels
        if critical is not None and worst is not None and worst.code != "watermark-stalled" and not is_named:
            parts.append(part((critical, style), rank=3, gap=" · "))  # something else is wrong, too
    elif any(found.severity != "info" for found in findings):
        words = f.counted(len(findings), "finding")
        if headline is not None and headline not in reasons:
            short, _, more = headline.partition(": ")  # the number of findings, after it, says that there is more
            parts.append(part((headline, style), rank=2, gap=" · ", short=((short, style),) * bool(more), short_rank=3))
        parts.append(part((words, style), (f" ({hint('doctor').keys})" if key else "", "dim"), rank=3, gap=" · "))
    return parts


def _shorter(verdict: Verdict, reason: str) -> str:
    """The reason where there is not enough room for it."""
    if verdict.verdict == "unknown" and verdict.reason.code == "too_short":
        of = "" if verdict.patience_ms is None else f" of {f.duration(verdict.patience_ms)}"
        return f"watched for {f.duration(verdict.reason.ms or 0)}{of}: no verdict yet"
    return reason.partition(" (usually ")[0]


def style_of(verdict: VerdictName, severities: Collection[Severity]) -> str:
    """The style of a verdict: the worst of the verdict and its findings' severities."""
    if verdict == "stalled" or "critical" in severities:
        return STYLES["stalled"]
    return STYLES["slow"] if "warning" in severities else STYLES[verdict]


def age_words(verdict: Verdict) -> str | None:
    """How long the watermark has not advanced: `2h27m`, `≥ 5m`; None: not known, or less than a second."""
    if verdict.age_ms is None or verdict.age_ms < f.SECOND:
        return None
    return f"{'≥ ' if verdict.age_at_least else ''}{f.duration(verdict.age_ms)}"


def usually(verdict: Verdict) -> str | None:
    """How often the watermark usually advances; None: not known yet."""
    if verdict.pace_ms is None:
        return None
    return f"usually every {'few seconds' if verdict.pace_ms <= FEW_SECONDS_MS else f.duration(verdict.pace_ms)}"


def verdict_line(
    snapshot: Snapshot, findings: Sequence[Finding] = (), *, lost: str | None = None, zone: tzinfo | None = None
) -> str:
    """The verdict as a line of plain text, for the command line."""
    parts = verdict_parts(snapshot, findings, lost=lost, zone=zone)
    return "".join(text for text, _ in lay(parts, 10_000)).strip(" ●")


def speed(value: float) -> str:
    """Event time per processing time: `1.0`, `0.03`, `600`."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 0.1 or not value else f"{value:.2g}"


def waiting_windows(snapshot: Snapshot) -> tuple[int, bool]:
    """How many open windows the fastest channel has passed but not the watermark; whether there may be more."""
    level, opened = snapshot.level, snapshot.windows.open
    if level.watermark_ms is None or level.fastest_ms is None:
        return 0, False
    passed = sum(level.watermark_ms < window.end_ms - 1 <= level.fastest_ms for window in opened)
    return passed, passed == len(opened) < (snapshot.windows.open_count or 0)


def blame(snapshot: Snapshot) -> str | None:
    """Who blocks the watermark, and how; None: no channel is to blame, or it is not known."""
    found = _blame_of(snapshot)
    return None if found is None else found.words


def _blame_of(snapshot: Snapshot) -> Blame | None:
    """The channels that block the watermark, and the cause: the first blockers with the same cause.

    Only as many as free most of the lag: channels near the fastest one are not to blame. No channel is to blame after a
    raised lateness.
    """
    steps, stuck = snapshot.blockers, worst_clock(snapshot)
    if stuck is not None and not steps:  # a task of Kafka Streams; one that is slow only by its name
        is_slow, is_fine = stuck.verdict == "slow", stuck.verdict in ("moving", "unknown", "ended")
        text = clock_name(stuck) if is_slow else None if is_fine else stuck_title(snapshot, stuck)
        return None if text is None else Blame(text, text, text)
    if not steps or snapshot.verdict.reason.code == "lateness_raised":
        return None
    most = MAX_OF_IT * (snapshot.level.behind_fastest_ms or 0)
    enough = next((place for place, step in enumerate(steps, 1) if (step.gain_ms or 0) >= most), len(steps))
    same = list(takewhile(lambda step: step.cause == steps[0].cause, steps[:enough]))
    return _blame_on([channel for step in same for channel in step.channels], count_of(same), steps[0].cause)


def _blame_on(channels: Sequence[str], count: int, cause: Cause) -> Blame:
    who = f.label(channels[0], _SHORT_NAME) + (f" +{count - 1:,}" if count > 1 else "")
    # Fewer of them if names are long, since the line also has the cost and the fix.
    lengths = accumulate(len(name(channel)) for channel in channels[:NAMED])
    blamed = named(channels, count, max(sum(length <= NAMED_CELLS for length in lengths), 1))
    return Blame(f"{blamed} {does(cause, count)}", f"{who}: {CAUSES[cause].short}", who)


def _what_waits(snapshot: Snapshot, zone: tzinfo | None) -> list[str]:
    """The windows of the stuck task, and the record that frees the first; empty where not known."""
    worst = worst_clock(snapshot)
    if worst is None:
        return []
    record = frees_words(worst, zone, snapshot.now_ms) if worst.verdict == "waiting" else None  # else it is there
    return [text for text in (windows_wait(worst.waiting_count), record) if text]


def _blamed(snapshot: Snapshot, findings: Sequence[Finding]) -> Blame | None:
    """As `_blame_of`, with the doctor's channels if it has found some without data."""
    silent = _silent_in(findings)
    if silent is None:
        return _blame_of(snapshot)
    return _blame_on(silent.channels, len(silent.channels), silent.blames or "quiet")


def _silent_in(findings: Sequence[Finding]) -> Finding | None:
    return next((found for found in findings if found.blames is not None), None)


def _reason(snapshot: Snapshot, verdict: Verdict, findings: Sequence[Finding], silent_ms: int | None) -> list[str]:
    """The reasons, the most important first."""
    reason, first = verdict.reason, findings[0] if findings else None
    found = _blamed(snapshot, findings)
    who = None if found is None else found.words
    if first is not None and _says_who(first):
        who = first.title
    if verdict.verdict == "moving":
        return _moving(snapshot, verdict, first.title if first is not None and first.severity == "critical" else None)
    if verdict.verdict == "slow":
        lost = f"falls behind the clock by {f.duration(lost_an_hour(verdict))} an hour"
        return [lost] if who is None else [lost, who]
    if who is not None and worst_clock(snapshot) is not None and verdict.verdict == "waiting":
        return [who]
    if verdict.verdict == "stalled":
        if who is not None:
            return [who]
        if first is not None and first.code != "watermark-stalled" and accounts_for(first, "stalled"):
            return [first.title]
        if reason.code == "unread_records":
            return [f"{f.counted(reason.records, 'record')} unread"]
        return [AS_A_WHOLE]
    accounted = first.title if first is not None and accounts_for(first, "unknown") else None
    if reason.code == "engine_lost":
        gone = "the engine is gone, this is its last snapshot"
        if silent_ms is not None and silent_ms >= f.SECOND:
            gone = f"no snapshot for {f.duration(silent_ms // 1_000 * 1_000)}"
        return [gone] if accounted is None else [accounted, gone]
    needs = "" if verdict.patience_ms is None else f", or {f.duration(verdict.patience_ms)} without one"
    left, time = f.duration(reason.ms or 0), snapshot.target.time_name
    return [
        {
            **REASONS,
            "too_short": f"watched for {left}: a verdict needs an advance of the {time}{needs}",
            "lateness_raised": f"moves again after {left} of event time",
            "source_silent": accounted or REASONS["source_silent"],
            "failed": f.cut(f.first_line(snapshot.error), 3 * NAME_CELLS) if snapshot.error else "it failed",
            "not_known": accounted or REASONS["not_known"],
            "not_judged": "not judged yet",
            "ended": presenter_of(snapshot).end(),
        }.get(reason.code, reason.code.replace("_", " "))
    ]


def _moving(snapshot: Snapshot, verdict: Verdict, critical: str | None) -> list[str]:
    """What a watermark that moves is worth a word for; the headline of a critical finding comes first."""
    behind, texts = snapshot.level.behind_fastest_ms, [critical] if critical is not None else []
    if verdict.age_ms is not None and verdict.age_ms >= f.MINUTE:
        usual = usually(verdict)
        texts.append(f"advanced {f.duration(verdict.age_ms)} ago{'' if usual is None else f' ({usual})'}")
    elif verdict.speed is not None and verdict.speed < SLOW_SPEED:
        texts.append(f"advances at {speed(verdict.speed)} of real time")
    if behind and not ahead_elsewhere(snapshot):  # else nothing is behind: the finding names who is ahead
        texts.append(f"{f.duration(behind)} behind fastest")
    return texts


def lost_an_hour(verdict: Verdict) -> int:
    """How much further (ms) a slow watermark falls behind in an hour."""
    return round((verdict.reason.ms or 0) * f.HOUR / (verdict.reason.over_ms or f.HOUR))


def _says_who(finding: Finding) -> bool:
    """Whether a finding's title says who holds back the watermark, and how."""
    stuck = finding.code == "lagging-channels" and finding.severity == "critical"
    return stuck or finding.code == "operator-keeps-watermark"


def _cost_and_fix(snapshot: Snapshot, findings: Sequence[Finding], offer: Offer | None, key: str | None) -> list[Part]:
    waiting, more = waiting_windows(snapshot)
    if (silent := _silent_in(findings)) is not None and silent.windows:  # as many as the doctor says
        waiting, more = silent.windows, more and silent.windows == waiting
    parts: list[Part] = []
    if waiting:
        verb = "window waits" if waiting == 1 and not more else "windows wait"
        parts.append(part((f"{waiting:,}{'+' * more} {verb}", "text"), rank=3, gap=" · "))
    if offer is not None:
        words = (offer.proposed.words(), "strong")
        parts.append(part(("fix: ", "dim"), words, rank=1, gap=" · ", short=(words,), short_rank=_COST))
        if offer.gain_ms:
            since = "" if offer.at_once else " if set from the start"
            parts.append(part((f": {f.signed(offer.gain_ms)}{since}", "text"), rank=_COST, gap=""))
        if offer.price is not None:
            parts.append(part((f"{', ' if offer.gain_ms else ': '}{offer.price}", "text"), rank=_COST, gap=""))
        if key:
            parts.append(part((f" ({key})", "key"), rank=1, gap=""))
    elif findings and key:
        parts.append(part(("see the doctor ", "dim"), (f"({hint('doctor').keys})", "key"), rank=2, gap=" · "))
    return parts
