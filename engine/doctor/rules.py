"""The rules, each registered beside its finding, and what applies them: `diagnose`, `explain` and `meaning_of`."""

from collections.abc import Callable, Collection, Sequence
from datetime import tzinfo
from inspect import getdoc
from typing import TypeVar

from msgspec import Struct

from ..snapshot import Snapshot, VerdictName
from ..verdict.history import HistoryPoint
from ..verdict.preview import ProposedSetting
from .diagnosis_input import DiagnosisInput
from .finding import Context, Finding, Severity

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
    """Register a function as the rule that finds `finding`; the arguments are those of `Rule`."""

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


class Diagnosis(Struct, frozen=True):
    """A finding in words; `proposed` is the setting among its fixes that can be previewed."""

    code: str
    severity: Severity
    channels: Sequence[str]
    title: str
    impact: str
    """The effect on the results."""
    cause: str
    evidence: Sequence[str]
    fixes: Sequence[str]
    """What to do, the best first."""
    screens: Sequence[str]
    """The further screens that show it, the best first."""
    channel: str | None = None
    """The channel whose page shows it best."""
    proposed: ProposedSetting | None = None


def explain(finding: Finding, snapshot: Snapshot, zone: tzinfo | None) -> Diagnosis:
    """A finding in words."""
    words = finding.words(Context(snapshot, zone))
    return Diagnosis(
        code=finding.code,
        severity=finding.severity,
        channels=finding.channels,
        title=words.title,
        impact=words.impact,
        cause=words.cause,
        evidence=words.evidence,
        fixes=[fix.words(snapshot) for fix in finding.fixes],
        screens=words.screens,
        channel=words.channel,
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
    means, by, do = (" ".join(part.split()) for part in (getdoc(rule.finding) or "").split("\n\n"))
    not_beside = sorted(rule.suppressed_by)
    return Meaning(code, means, _sentence(by, "Recognised by:"), _sentence(do, "What to do:"), not_beside)


def _sentence(paragraph: str, label: str) -> str:
    text = paragraph.removeprefix(label).strip()
    return text[:1].upper() + text[1:]
