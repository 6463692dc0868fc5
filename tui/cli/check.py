"""`wmtop check`: a target's verdict and findings, once; `watch`: a line at each change; `explain`: what one means."""

import shutil
import textwrap
import threading
import time as clock
from collections.abc import Callable, Collection, Iterator
from difflib import get_close_matches
from functools import partial
from typing import Annotated

import typer
from msgspec import Struct

from ...engine.doctor import RULES, Meaning, meaning_of
from ...engine.doctor import explain as in_words
from ...engine.feed.messages import Header, json_of
from ...engine.snapshot import Snapshot
from ...engine.snapshot.recommendation import recommendation
from ...engine.system.errors import RunError, UsageError, first_line, unexpected
from ...engine.targets import READER_THREAD
from ...engine.targets.own import is_recording, local_path
from ...engine.targets.target import NO_OPTIONS, TargetOptions
from ...engine.text.formatting import DAY, MINUTE, clean, duration, stamp
from ...engine.verdict.alerts import LOST_AFTER_MS
from ...engine.verdict.blame import held_back_by
from ..words.check import (
    BAD,
    FACTS,
    Checked,
    CheckedFinding,
    CheckInput,
    Expression,
    Outcome,
    evaluate,
    facts_of,
    lines,
    reason_of,
    table,
)
from ..words.fact_values import AtLeast
from ..words.kinds import presenter_of
from ..words.recent import Recent
from ..words.spans import fitted
from ..words.verdict import verdict_line
from .names import target_argument
from .options import (
    FAIL_ON,
    OF_CHECKS,
    AllTargets,
    AtTime,
    duration_option,
    flag,
    option,
    parse_condition,
    parse_severities,
    with_target_options,
)
from .process import inform, log, say
from .targets import ANSWERS_WITHIN_MS, Look, Member, look_at, member_of, recording_at, some_members

NO_ANSWER = "no answer within"

FINE, MET, UNUSABLE, CANNOT_TELL = 0, 1, 2, 3
DEFAULT_COLUMNS = 160
"""The width of the table where the output is not a terminal."""
MAX_COLUMNS = 100
"""Columns of a paragraph, at most."""
_INDENT = 26
"""The column at which the texts of the list of findings begin."""
MIN_S = 10
"""How long (s) a target may take to answer, however short `--for` is."""
LAST_POLL_S = 1
"""How long (s) a poll that began within `--for` may take."""


class SoFar(Struct):
    """What was found of a target, and how long (ms) it is read."""

    for_ms: int
    found: Checked | None = None


@with_target_options(*OF_CHECKS)
def check(
    targets: Annotated[
        list[str] | None, target_argument("a run, a recording, or anything that 'wmtop attach' takes", "TARGET…")
    ] = None,
    every: AllTargets = False,
    chain: Annotated[
        bool, flag("--chain", "the chain of the configured targets, or of a configuration given as TARGET")
    ] = False,
    fail_if: Annotated[
        str | None, option("EXPR", "exit 1 only if it is true, e.g. 'level_lag > 10m or late_share > 1%'")
    ] = None,
    fail_on: Annotated[
        Collection[str] | None,
        option("critical|warning|never", "exit 1 for a finding at least that severe", parse=parse_severities),
    ] = None,
    look_for: Annotated[
        int | None,
        duration_option("how long to wait for a verdict (as long as one takes, at most 5m; no answer: 30s)", "--for"),
    ] = None,
    at: AtTime = None,
    options: TargetOptions = NO_OPTIONS,
    json: Annotated[bool, flag("--json", "print one JSON object a target")] = False,
) -> None:
    """Check a target: exit 0 fine, 1 slow, stalled or a finding, 2 unusable input, 3 cannot tell.

    With --fail-if EXPR it is 1 if EXPR is true, and for the findings of a given --fail-on; the verdict does not count.
    """
    expression = _parsed(fail_if)
    if chain:
        from .chain import chain_member

        found = [chain_member(targets or [], every=every)]
    else:
        found = some_members(targets or [], every=every)
    if not found:
        raise UsageError("check what? Give a TARGET (a run, a recording, a checkpoint, …) or --all")
    check_one = partial(_check, expression=expression, fail_on=fail_on, for_ms=look_for, at=at, options=options)
    results: list[Checked] = []
    refused: list[UsageError] = []
    limit_ms = ANSWERS_WITHIN_MS if look_for is None else look_for
    for result in _check_all(found, check_one, limit_ms):
        if isinstance(result, UsageError):
            refused.append(result)
            continue
        results.append(result)
        if json:
            print(json_of(result).decode(), flush=True)
    if refused and not results:
        raise refused[0]
    if not json:
        columns = shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns
        print("\n".join(table(results, columns) if every else [line for result in results for line in lines(result)]))
    for error in refused:  # what is wrong with one target hides nothing of the others
        inform(str(error))
    codes = [result.exit for result in results] + [UNUSABLE] * len(refused)
    raise typer.Exit(next((code for code in (MET, UNUSABLE, CANNOT_TELL) if code in codes), FINE))


def _parsed(text: str | None) -> Expression | None:
    if text is None:
        return None
    try:
        return parse_condition(text)
    except ValueError as error:
        raise UsageError(f"--fail-if: {error}") from None


def _check_all(
    members: list[Member], check_one: Callable[[Member, SoFar], Checked], limit_ms: int
) -> Iterator[Checked | UsageError]:
    """Check all targets at the same time; results in order, also `UsageError`s. A hanging target delays no other."""
    outcomes: dict[str, Checked | Exception] = {}
    so_far = {each.name: SoFar(limit_ms) for each in members}

    def look(member: Member) -> None:
        try:
            outcomes[member.name] = check_one(member, so_far[member.name])
        except Exception as error:  # noqa: BLE001 - the thread that waits reports it
            outcomes[member.name] = error

    threads = {
        each.name: threading.Thread(target=look, args=(each,), name=f"{READER_THREAD}{each.name}", daemon=True)
        for each in members
    }
    for thread in threads.values():
        thread.start()
    began = clock.monotonic()
    for name, thread in threads.items():
        while (left := began + hangs_after_s(so_far[name].for_ms) - clock.monotonic()) > 0 and thread.is_alive():
            thread.join(left)  # a verdict may take longer, as is known by then
        outcome = outcomes.get(name)
        if isinstance(outcome, Exception) and not isinstance(outcome, UsageError):
            log.error("unexpected error", exc_info=outcome)
            outcome = _unknown(name, unexpected(outcome))
        waited_ms = hangs_after_s(so_far[name].for_ms) * 1_000
        yield outcome or so_far[name].found or _unknown(name, f"{NO_ANSWER} {duration(waited_ms)}")


def hangs_after_s(for_ms: int) -> float:
    """The time (s) after which `check` no longer waits for a target that does not answer."""
    return max(for_ms / 1_000, MIN_S) + LAST_POLL_S


def _check(
    member: Member,
    so_far: SoFar,
    *,
    expression: Expression | None,
    fail_on: Collection[str] | None,
    for_ms: int | None,
    at: str | None,
    options: TargetOptions,
) -> Checked:
    """Check one target; `so_far` gets what was found, in case its next poll takes too long."""
    expression = _parsed(member.fail_if) if expression is None else expression

    def decided(look: Look) -> bool:
        if _decided(look.given(), expression):
            return True
        so_far.for_ms, so_far.found = look.for_ms, result_of(member.name, look, expression, fail_on)
        return False

    try:
        look = look_at(member, decided, for_ms, at, options)
    except RunError as error:
        return _unknown(member.name, first_line(error))
    except UsageError as error:
        if not member.forgiving:
            raise
        return _unknown(member.name, first_line(error))
    return result_of(member.name, look, expression, fail_on)


def _decided(given: CheckInput, expression: Expression | None) -> bool:
    """Whether more time would not change the answer.

    True if the target has ended or is settled, if the expression is true, or if verdict and expression are known.
    """
    snapshot = given.snapshot
    if snapshot.state in ("failed", "ended") or snapshot.condition.settled:
        return True
    if expression is not None and evaluate(expression, given).met:
        return True
    return given.verdict != "unknown" and (expression is None or evaluate(expression, given).met is not None)


def _unknown(target: str, reason: str) -> Checked:
    """The result for an unreadable target: unknown, never fine."""
    return Checked(target, "unknown", reason, [], dict.fromkeys(FACTS), CANNOT_TELL)


def result_of(target: str, look: Look, expression: Expression | None, fail_on: Collection[str] | None) -> Checked:
    given = look.given()
    said = [in_words(finding, given.snapshot, None) for finding in given.findings]
    facts = facts_of(given)
    headline = presenter_of(given.snapshot).headline()
    outcome = None if expression is None else evaluate(expression, given)
    return Checked(
        target=target,
        verdict=given.verdict,
        reason="; ".join(filter(None, (headline, reason_of(given)))),
        findings=[
            CheckedFinding(
                code=one.code,
                severity=one.severity,
                channels=list(one.channels),
                cause=one.cause,
                fix=one.fixes[0] if one.fixes else "",
                title=one.title,
                evidence=list(one.evidence),
            )
            for one in said
        ],
        facts={name: float(value) if isinstance(value, AtLeast) else value for name, value in facts.items()},
        at_least=[name for name, value in facts.items() if isinstance(value, AtLeast)],
        exit=exit_code(given, outcome, fail_on),
        met=outcome.words if outcome is not None and outcome.met else None,
        not_known=outcome.words if outcome is not None and outcome.met is None else None,
        not_met=outcome.words if outcome is not None and outcome.met is False else None,
        held_back_by=held_back_by(given.snapshot),
        recommendation=recommendation(given.snapshot),
        read=look.read,
    )


def exit_code(given: CheckInput, outcome: Outcome | None, fail_on: Collection[str] | None) -> int:
    """The exit code for a target: by the outcome of `--fail-if` if there is one, else by the verdict; and by findings.

    `fail_on` are the severities that count, by default critical ones; beside `--fail-if` none.
    """
    if fail_on is None:
        fail_on = () if outcome is not None else FAIL_ON["critical"]
    is_met = given.verdict in BAD if outcome is None else outcome.met
    if is_met or any(finding.severity in fail_on for finding in given.findings):
        return MET
    is_known = given.verdict != "unknown" if outcome is None else outcome.met is not None
    return FINE if is_known else CANNOT_TELL


def finding_codes(incomplete: str) -> list[str]:
    """The codes of the findings that begin so, for a shell to complete."""
    return [code for code in sorted(RULES) if code.startswith(incomplete)]


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="CODE", autocompletion=finding_codes, help="the code of a finding")
    ] = None,
) -> None:
    """Print what a finding of the doctor means, how it is recognised and what to do; without CODE: list all."""
    columns = shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns
    if code is None:
        for known in sorted(RULES):
            print(fitted(f"{known:<{_INDENT}}{meaning_of(known).in_short}", columns))
        return
    known = code.strip().lower().replace("_", "-")
    if known not in RULES:
        near = " or ".join(map(repr, get_close_matches(known, RULES, n=2, cutoff=0.5)))
        hint = f"did you mean {near}?" if near else "'wmtop explain' lists all"
        raise UsageError(f"no finding {clean(code)!r}; {hint}")
    print(explanation(meaning_of(known), min(columns, MAX_COLUMNS)))


def explanation(meaning: Meaning, columns: int) -> str:
    """The text about one finding, in lines of at most `columns` cells."""
    paragraphs = [
        meaning.code,
        meaning.means,
        f"How it is recognised: {meaning.recognised_by}",
        f"What to do: {meaning.what_to_do}",
    ]
    if meaning.not_beside:
        paragraphs.append(f"Not shown if one of these is found, which explains it: {', '.join(meaning.not_beside)}.")
    return "\n\n".join(textwrap.fill(text, columns, break_on_hyphens=False) for text in paragraphs)


FOR_EVER_MS = 3_650 * DAY
FIRST_MS = 2_000
"""How long (ms) the first answer may take before a line says that it is waited for."""


class Lines:
    """Prints a line at each change of verdict, of the holder or of the findings, and now and then."""

    def __init__(self, every_ms: int) -> None:
        self._every_ms = every_ms
        self._state: tuple[object, ...] | None = None
        self._titles: dict[str, str] = {}
        self._printed_ms = 0
        self._heard_s = clock.monotonic()
        self._is_silent = False

    def greet(self, header: Header) -> None:
        """Print that the engine is connected."""
        self._say(_wall_ms(), f"connected to {header.name}, waiting for its first snapshot")
        self._heard_s = clock.monotonic()

    def note_silence(self, target: str) -> None:
        """Print once that nothing comes: what was printed last may no longer be so."""
        silent_ms = (clock.monotonic() - self._heard_s) * 1_000
        if self._is_silent or silent_ms < (LOST_AFTER_MS if self._state else FIRST_MS):
            return
        self._is_silent = True
        since = f"UNKNOWN  {target} has sent nothing for {duration(silent_ms)}"
        self._say(_wall_ms(), since if self._state else f"waiting for the first answer of {target}")

    @staticmethod
    def _say(at_ms: int, words: str) -> None:
        print(f"{stamp(at_ms, None)}  {clean(words)}", flush=True)

    def see(self, look: Look) -> bool:
        """Print the newest snapshot's line if one is due; False: there is always more to see."""
        given = look.given()
        snapshot, titles = given.snapshot, {finding.code: finding.title for finding in given.findings}
        holder, wall_ms = held_back_by(snapshot), _wall_ms(snapshot)
        state, was_silent = (given.verdict, holder, *sorted(titles)), self._is_silent
        self._heard_s, self._is_silent = clock.monotonic(), False
        if state == self._state and not was_silent and wall_ms - self._printed_ms < self._every_ms:
            return False
        line = verdict_line(snapshot, given.findings, lost=look.lost)
        parts = [line, f"held back by {holder}" if holder is not None and holder not in line else ""]
        parts += [*(f"new: {titles[code]}" for code in titles if code not in self._titles)]
        parts += [f"over: {title}" for code, title in self._titles.items() if code not in titles]
        at_ms = wall_ms if snapshot.now_ms is None else snapshot.now_ms
        self._say(at_ms, " · ".join(part for part in parts if part))
        self._state, self._titles, self._printed_ms = state, titles, wall_ms
        return False


@with_target_options(*OF_CHECKS)
def watch(
    target: Annotated[str, target_argument("a run, a recording, or anything that 'wmtop attach' takes", "TARGET")],
    every: Annotated[int, duration_option("also print a line after D without a change (1m)")] = MINUTE,
    watch_for: Annotated[int, duration_option("stop after D; without it: never", "--for")] = FOR_EVER_MS,
    options: TargetOptions = NO_OPTIONS,
) -> None:
    """Print a line at each change of a target's verdict, holder or findings: for screen readers and logs.

    Exit 0 if it was fine at the end, 1 slow or stalled, 2 unusable input, 3 lost or cannot tell.
    """
    member, lines = member_of(target), Lines(every)
    if is_recording(member.target):
        look = Look(Recent())
        with recording_at(local_path(member.target), None) as (reader, last):
            for number in range(last + 1):
                look.seen = [reader.at(number)]
                look.recent.add(look.snapshot)
                lines.see(look)
    else:
        over = threading.Event()
        threading.Thread(target=_note_silence, args=(lines, target, over), daemon=True).start()
        try:
            look = look_at(member, lines.see, watch_for, None, options, lines.greet)
        finally:
            over.set()
    if look.lost is not None:
        raise typer.Exit(say(f"{target} is lost: {look.lost}", CANNOT_TELL))
    verdict = look.given().verdict
    raise typer.Exit(MET if verdict in BAD else CANNOT_TELL if verdict == "unknown" else FINE)


def _note_silence(lines: Lines, target: str, over: threading.Event) -> None:
    while not over.wait(1):
        lines.note_silence(target)


def _wall_ms(snapshot: Snapshot | None = None) -> int:
    known = None if snapshot is None else snapshot.wall_ms
    return clock.time_ns() // 1_000_000 if known is None else known
