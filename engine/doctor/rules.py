"""The rules: their input, their registration beside a finding, and what applies them (`diagnose`, `explain`)."""

from collections.abc import Callable, Collection, Sequence
from datetime import tzinfo
from functools import cached_property
from inspect import getdoc
from statistics import median
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import asdict

from ..snapshot import ChannelView, Snapshot, VerdictName, WhatIf, WhatIfIdle
from ..snapshot.flink_job import FlinkJob
from ..verdict import verdict as judgement
from ..verdict.history import HistoryPoint
from ..verdict.preview import ProposedSetting
from ..watermarks.settings import Session
from .finding import Context, Explanation, Finding, Severity

SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


class DiagnosisInput:
    """The newest snapshot and the history before it, with values that several rules derive from them; durations in ms.

    `lost`: why no further snapshot will come; `silent_ms`: how long none has come. Both come from the reader.
    """

    def __init__(
        self, snapshot: Snapshot, past: Sequence[HistoryPoint], *, lost: str | None = None, silent_ms: int | None = None
    ) -> None:
        self.snapshot = snapshot
        self.past = past
        self.lost = lost
        self.silent_ms = silent_ms
        self.settings = snapshot.settings
        self.channels = snapshot.channels
        self.now_ms = snapshot.now_ms
        self.watermark_ms = snapshot.level.watermark_ms

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
    def has_valve(self) -> bool:
        """Whether the watermark is the minimum over the channels, so that a channel can hold it back."""
        return self.settings.strategy not in ("spark", "none")

    @property
    def running_job(self) -> FlinkJob | None:
        """The job, where it runs and its metrics are new enough to be judged."""
        job = self.snapshot.job
        return job if job.state == "RUNNING" and self.snapshot.state in ("live", "partial") else None

    @property
    def by_wall_clock(self) -> bool:
        """Whether processing time is the wall clock: not in a replay."""
        now, wall = self.now_ms, self.snapshot.wall_ms
        return now is not None and wall is not None and abs(now - wall) < MINUTE

    @property
    def unbounded(self) -> bool:
        """Whether the source has no known end: open windows would fire at its end."""
        source = self.snapshot.source
        return source is None or (source.kind != "replay" and source.rows is None)

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
    def own_idle(self) -> WhatIfIdle | None:
        """What the idle timeout in force would have given from the start."""
        idle = self.settings.idle_after_ms
        return next((row for row in self.snapshot.whatif_idle or () if row.idle_after_ms == idle), None)


def verdict_at(snapshot: Snapshot, past: Sequence[HistoryPoint], *, lost: str | None = None) -> VerdictName:
    """The verdict behind the findings for the same arguments."""
    return DiagnosisInput(snapshot, past, lost=lost).verdict


def share(part: int | None, whole: int | None) -> float | None:
    """`part` of `whole`; None if one of them is not known or `whole` is 0."""
    return None if part is None or not whole else part / whole


def loss_severity(lost: float | None) -> Severity:
    """The severity of losing that share of the records: from a tenth on the results are wrong."""
    return "critical" if lost is not None and lost >= 0.1 else "warning"


def thirds(values: Sequence[float]) -> tuple[float, float, float]:
    """The medians of the first, second and last third of at least three values."""
    third = len(values) // 3
    return median(values[:third]), median(values[third:-third]), median(values[-third:])


F = TypeVar("F", bound=Finding)

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""The severities, the worst first."""


class Rule(Struct, frozen=True):
    """How a finding is found, and how it relates to other findings and to the verdict."""

    finding: type[Finding]
    check: Callable[[DiagnosisInput], Finding | None]
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
    finding: type[F],
    *,
    suppressed_by: Collection[str] = (),
    accounts_for: Collection[VerdictName] = (),
    before_data: bool = False,
    last_resort: VerdictName | None = None,
) -> Callable[[Callable[[DiagnosisInput], F | None]], Callable[[DiagnosisInput], F | None]]:
    """Register the rule that finds `finding`, whose docstring says how; the arguments are those of `Rule`."""

    def register(check: Callable[[DiagnosisInput], F | None]) -> Callable[[DiagnosisInput], F | None]:
        code = str(finding.__struct_config__.tag)
        assert code not in RULES, f"a second rule for {code}"
        RULES[code] = Rule(finding, check, frozenset(suppressed_by), frozenset(accounts_for), before_data, last_resort)
        return check

    return register


def diagnose(
    snapshot: Snapshot, past: Sequence[HistoryPoint], *, lost: str | None = None, silent_ms: int | None = None
) -> list[Finding]:
    """The findings, the worst first: by severity, then by size.

    With an unknown verdict, what accounts for it comes first: the other findings judge old data. `past` is the history
    up to the snapshot, the oldest point first; `lost` is why no further snapshot will come, `silent_ms` how long none
    has come. While the verdict is stalled, slow or unknown the list is never empty.
    """
    facts = DiagnosisInput(snapshot, past, lost=lost, silent_ms=silent_ms)
    bare = snapshot.state == "starting" or (snapshot.state == "failed" and not snapshot.channels)
    applied = [rule for rule in RULES.values() if rule.last_resort is None and (rule.before_data or not bare)]
    findings = [finding for rule in applied if (finding := rule.check(facts)) is not None]
    codes = {finding.code for finding in findings}
    findings = [finding for finding in findings if codes.isdisjoint(RULES[finding.code].suppressed_by)]
    verdict = facts.verdict
    if not any(_explains(finding, verdict) for finding in findings):
        last = (rule.check(facts) for rule in RULES.values() if rule.last_resort == verdict)
        findings += [finding for finding in last if finding is not None][:1]
    unknown = verdict == "unknown"
    return sorted(
        findings, key=lambda it: (SEVERITIES.index(it.severity), unknown and not _explains(it, verdict), -it.size)
    )


def accounts_for(finding: Finding, verdict: VerdictName) -> bool:
    """Whether the finding is a reason for that verdict, or replaces one that is not known."""
    return RULES[finding.code].last_resort is not None or _explains(finding, verdict)


def _explains(finding: Finding, verdict: VerdictName) -> bool:
    return verdict in RULES[finding.code].accounts_for and finding.explains(verdict)


class Diagnosis(Explanation, frozen=True, kw_only=True):
    """A finding in words; `proposed` is the setting among its fixes that can be previewed."""

    code: str
    severity: Severity
    channels: Sequence[str]
    fixes: Sequence[str]
    """What to do, the best first."""
    proposed: ProposedSetting | None = None


def explain(finding: Finding, snapshot: Snapshot, zone: tzinfo | None) -> Diagnosis:
    """A finding in words."""
    return Diagnosis(
        **asdict(finding.words(Context(snapshot, zone))),
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
    means, *labelled = (" ".join(part.split()) for part in (getdoc(rule.finding) or "").split("\n\n"))
    by, do = (text[:1].upper() + text[1:] for text in (part.partition(": ")[2] for part in labelled))
    return Meaning(code, means, by, do, sorted(rule.suppressed_by))
