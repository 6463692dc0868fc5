"""The rules: their input, their registration beside a finding, and what applies them (`diagnose`, `explain`)."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from functools import cached_property
from inspect import getdoc
from itertools import islice
from statistics import median

from msgspec import Struct, UnsetType
from msgspec.structs import replace

from ..snapshot import ChannelView, Snapshot, VerdictName, WhatIf
from ..text import formatting as f
from ..verdict import verdict as judgement
from ..verdict.history import HistoryPoint
from ..verdict.preview import ProposedSetting
from ..watermarks.settings import Session
from .finding import CHECK_QUERY, CHECK_RUNNING, Finding, Fix, Offered, Severity
from .kind_details import KindDetails, details_of

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


@dataclass(eq=False)
class DiagnosisInput:
    """The newest snapshot and the history before it, with values that several rules derive from them; durations in ms.

    `lost`: why no further snapshot will come; `silent_ms`: how long none has come; `offered`: what was offered before.
    All three come from the reader.
    """

    snapshot: Snapshot
    past: Sequence[HistoryPoint]
    lost: str | None = None
    silent_ms: int | None = None
    offered: Offered | None = None

    def __post_init__(self) -> None:
        self.settings = self.snapshot.settings
        self.target = self.snapshot.target
        self.channels = self.snapshot.channels
        self.now_ms = self.snapshot.now_ms
        self.watermark_ms = self.snapshot.level.watermark_ms

    @property
    def ended(self) -> bool:
        """Whether no further record will come."""
        return self.snapshot.ended or self.snapshot.state == "ended"

    @property
    def over(self) -> bool:
        """Whether an own run has ended; findings about an attached query are shown also after its end."""
        return self.ended and not self.is_attached

    @property
    def is_attached(self) -> bool:
        """The query belongs to another program."""
        return self.snapshot.is_attached

    @property
    def is_alive(self) -> bool:
        """Whether an attached query without a new batch is known to run: by its driver, or its job that publishes."""
        return any(note.args.get("alive") for note in self.snapshot.notes)

    @property
    def check_query(self) -> Fix:
        """Where to look at such a query."""
        return CHECK_RUNNING if self.is_alive else CHECK_QUERY

    @property
    def check_event_time(self) -> Fix:
        """To look at what assigns event times."""
        where = self.details.times_are_set if self.is_attached else "at the time column"
        return Fix("check-event-time", f"Look at the timestamps of new records, and {where}")

    @property
    def has_valve(self) -> bool:
        """Whether the watermark is the minimum over the channels, so that a channel can hold it back."""
        return self.settings.has_valve and self.target.has_watermark

    @property
    def details(self) -> KindDetails:
        """What the kind of target has in place of the general words and fixes."""
        return details_of(self.target)

    @property
    def by_wall_clock(self) -> bool:
        """Whether processing time is the wall clock: not in a replay."""
        now, wall = self.now_ms, self.snapshot.wall_ms
        return now is not None and wall is not None and abs(now - wall) < MINUTE

    @property
    def unbounded(self) -> bool:
        """Whether the source has no known end: open windows would fire at its end."""
        source = self.snapshot.source
        return source is None or not source.has_end

    @property
    def window_ms(self) -> int:
        """The size of the windows, or the gap of sessions; one minute if not known."""
        spec = self.settings.window
        if spec is None:
            return MINUTE
        return spec.gap_ms if isinstance(spec, Session) else spec.size_ms

    @property
    def scale_ms(self) -> int:
        """The normal delay of a result: the size of its window plus the lateness."""
        return self.window_ms + (self.settings.lateness_ms or 0)

    @property
    def quiet_limit_ms(self) -> int:
        """How long a channel may have no data before that becomes a finding."""
        return max(MINUTE, self.scale_ms * (1 if self.settings.idle_after_ms is None else 2))

    @cached_property
    def active(self) -> list[tuple[ChannelView, int]]:
        """The channels that take part in the minimum, with their watermarks (epoch ms), the slowest first."""
        views = [view for view in self.channels if view.state == "active"]
        known = [(view, view.watermark_ms) for view in views if view.watermark_ms is not None]
        return sorted(known, key=lambda pair: pair[1])

    @cached_property
    def fastest_ms(self) -> int | None:
        """The greatest channel watermark (epoch ms)."""
        return max((view.watermark_ms for view in self.channels if view.watermark_ms is not None), default=None)

    @property
    def frozen_ms(self) -> int | None:
        """The age of a watermark that is frozen for longer than a stall takes; None: it advances, or not known."""
        age_ms = self.snapshot.verdict.age_ms
        return age_ms if age_ms is not None and age_ms > self.stall_ms else None

    @property
    def stall_ms(self) -> int:
        """How long (processing time) the watermark may be frozen before that is a stall; a minute if not known."""
        return self.snapshot.verdict.patience_ms or MINUTE

    @cached_property
    def verdict(self) -> VerdictName:
        """The snapshot's verdict; unknown once its engine is lost."""
        return judgement.verdict_of(self.snapshot, lost=None if self.lost is None else "engine_lost").verdict

    def last(self, wall_ms: int) -> Sequence[HistoryPoint]:
        """The points of the last `wall_ms` of wall clock, the oldest first."""
        if not self.past:
            return ()
        since = self.past[-1].wall_ms - wall_ms
        return [point for point in self.past if point.wall_ms >= since]

    @property
    def watched_ms(self) -> int:
        """The wall clock that the history covers."""
        return self.past[-1].wall_ms - self.past[0].wall_ms if self.past else 0

    @property
    def event_times(self) -> list[int]:
        """The greatest event time (epoch ms) of each channel of which it is known."""
        return [view.max_event_ms for view in self.channels if view.max_event_ms is not None]

    def at_lateness(self, lateness_ms: int | None) -> WhatIf | None:
        """What that lateness would have cost from the start; None: not known."""
        return next((row for row in self.snapshot.whatif or () if row.lateness_ms == lateness_ms), None)

    @property
    def lateness(self) -> str:
        """The lateness in force in words, or that it is not known."""
        return f.ELSEWHERE if self.settings.lateness_ms is None else f.setting(self.settings.lateness_ms)

    @property
    def idle_timeout(self) -> str:
        """The idle timeout in force in words, or that it is not known."""
        idle_after_ms = self.settings.idle_after_ms
        is_known = idle_after_ms is not None or self.target.reports_settings
        return f.setting(idle_after_ms) if is_known else f.ELSEWHERE

    @property
    def nothing_fires(self) -> str:
        """What is missing while the watermark is stuck: windows, or rows of a sink that compacts by watermark."""
        return "The sink writes no row" if self.snapshot.windows.unknown == "sink_waits" else "No window fires"


def loss_severity(lost: float | None) -> Severity:
    """The severity of losing that share of the records: from a tenth on the results are wrong."""
    return "critical" if lost is not None and lost >= 0.1 else "warning"


def thirds(values: Sequence[float]) -> tuple[float, float, float]:
    """The medians of the first, second and last third of at least three values."""
    third = len(values) // 3
    return median(values[:third]), median(values[third:-third]), median(values[-third:])


Check = Callable[[DiagnosisInput], Finding | None]
SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""The severities, the worst first."""


class Rule(Struct, frozen=True):
    """How a finding is found, and how it relates to other findings and to the verdict."""

    check: Check
    screens: tuple[str, ...]
    """The screens that show it, the best first."""
    suppressed_by: frozenset[str]
    """The codes of the findings that explain this one, so that it is not shown beside them."""
    accounts_for: frozenset[VerdictName]
    """The bad verdicts that it is a reason for."""
    before_data: bool
    """Whether it also applies while the target starts, or has failed without channels."""
    last_resort: VerdictName | None
    """It applies only if no finding accounts for this verdict."""


RULES: dict[str, Rule] = {}
"""The rules by the code of their finding, in the order in which findings of equal weight are listed."""


def rule(
    code: str,
    *screens: str,
    suppressed_by: Collection[str] = (),
    accounts_for: Collection[VerdictName] = (),
    before_data: bool = False,
    last_resort: VerdictName | None = None,
) -> Callable[[Check], Check]:
    """Register the rule for a code; the arguments are those of `Rule`.

    The docstring of a rule is what `wmtop explain CODE` prints: what the finding means, then one paragraph with a line
    each that begins with "Recognised by:" and "What to do:".
    """

    def register(check: Check) -> Check:
        assert code not in RULES, f"a second rule for {code}"
        RULES[code] = Rule(check, screens, frozenset(suppressed_by), frozenset(accounts_for), before_data, last_resort)
        return check

    return register


def diagnose(
    snapshot: Snapshot,
    past: Sequence[HistoryPoint],
    *,
    lost: str | None = None,
    silent_ms: int | None = None,
    offered: Offered | None = None,
) -> list[Finding]:
    """The findings, the worst first: by severity, then by size.

    With an unknown verdict, what accounts for it comes first: the other findings judge old data. `past` is the history
    up to the snapshot, the oldest point first; `lost` is why no further snapshot will come, `silent_ms` how long none
    has come, `offered` is what `offered_by` gave for the snapshot before. While the verdict is stalled, slow or unknown
    the list is never empty.
    """
    facts = DiagnosisInput(snapshot, past, lost, silent_ms, offered)
    bare = snapshot.state == "starting" or (snapshot.state == "failed" and not snapshot.channels)
    applied = [code for code, rule in RULES.items() if rule.last_resort is None and (rule.before_data or not bare)]
    findings = list(_found(applied, facts))
    codes = {finding.code for finding in findings}
    findings = [finding for finding in findings if codes.isdisjoint(RULES[finding.code].suppressed_by)]
    verdict = facts.verdict
    if not any(_explains(finding, verdict) for finding in findings):
        last = (code for code, rule in RULES.items() if rule.last_resort == verdict)
        findings += islice(_found(last, facts), 1)
    unknown = verdict == "unknown"
    return sorted(
        findings, key=lambda it: (SEVERITIES.index(it.severity), unknown and not _explains(it, verdict), -it.size)
    )


def _found(codes: Iterable[str], facts: DiagnosisInput) -> Iterator[Finding]:
    """What the rules with these codes find."""
    for code in codes:
        if (finding := RULES[code].check(facts)) is not None:
            yield replace(finding, code=code, screens=finding.screens or RULES[code].screens)


def accounts_for(finding: Finding, verdict: VerdictName) -> bool:
    """Whether the finding is a reason for that verdict, or replaces one that is not known."""
    return RULES[finding.code].last_resort is not None or _explains(finding, verdict)


def _explains(finding: Finding, verdict: VerdictName) -> bool:
    return verdict in RULES[finding.code].accounts_for and verdict not in finding.not_for


class Diagnosis(Struct, frozen=True, kw_only=True):
    """A finding as it is shown, also in JSON; `proposed` is the setting among its fixes that can be previewed."""

    title: str
    impact: str
    cause: str
    evidence: Sequence[str]
    screens: Sequence[str] = ()
    channel: str | None = None
    code: str
    severity: Severity
    channels: Sequence[str]
    fixes: Sequence[str]
    """What to do, the best first."""
    proposed: ProposedSetting | None = None


def explain(finding: Finding, snapshot: Snapshot, zone: tzinfo | None) -> Diagnosis:
    """A finding in words."""
    channel = finding.channel
    if isinstance(channel, UnsetType):
        channel = finding.channels[0] if len(finding.channels) == 1 else None
    return Diagnosis(
        title=finding.title,
        impact=finding.impact,
        cause=finding.cause,
        evidence=[text if isinstance(text, str) else text(zone) for text in finding.evidence if text is not None],
        screens=finding.screens,
        channel=channel,
        code=finding.code,
        severity=finding.severity,
        channels=finding.channels,
        fixes=[fix.words(snapshot) for fix in finding.fixes],
        proposed=next((fix.proposed for fix in finding.fixes if fix.proposed is not None), None),
    )


class Meaning(Struct, frozen=True):
    """What a finding is in general, without the numbers of a case."""

    code: str
    means: str
    recognised_by: str
    what_to_do: str
    not_beside: Sequence[str]
    """The codes of the findings beside which it is not shown, because they explain it."""

    @property
    def in_short(self) -> str:
        """The first sentence of what it means."""
        return self.means.split(". ")[0].removesuffix(".")


def meaning_of(code: str) -> Meaning:
    """What `wmtop explain` and `docs/findings.md` say about a finding: the paragraphs of its docstring."""
    rule = RULES[code]
    paragraphs = re.split(r"\s+(?:Recognised by|What to do): ", getdoc(rule.check) or "")
    means, by, do = (" ".join(text.split()) for text in paragraphs)
    return Meaning(code, means, f.sentence(by), f.sentence(do), sorted(rule.suppressed_by))
