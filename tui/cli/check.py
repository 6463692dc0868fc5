"""`wmtop check`: watch targets until a verdict is possible, print verdict and findings, and exit accordingly."""

import shutil
import sys
import threading
import time as clock
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from ...engine.doctor import explain
from ...engine.snapshot import Snapshot
from ...engine.system.errors import RunError, UsageError, first_line
from ...engine.targets import READER_THREAD
from ...engine.targets.target import NO_OPTIONS, TargetOptions
from ...engine.text.formatting import duration
from ..words.check import (
    BAD,
    FACTS,
    Checked,
    CheckedFinding,
    CheckInput,
    Expression,
    evaluate,
    facts_of,
    lines,
    reason_of,
    table,
)
from ..words.fleet import held_back_by
from .complete import target_names
from .look import Look, look_at
from .members import Member, some_members
from .options import parse_condition, parse_duration, parse_time, parsed
from .target_options import OF_CHECKS, with_target_options

NO_ANSWER = "no answer within"

FINE, MET, UNUSABLE, CANNOT_TELL = 0, 1, 2, 3
DEFAULT_FOR_MS = 30_000
DEFAULT_COLUMNS = 160
"""The width of the table where the output is not a terminal."""
_BEGINS_NOTHING = ("no_new_batch", "batch_unfinished", "query_silent", "application_gone")
"""The notes on a query that is stale because no batch has begun for long, not because it is unreadable."""
MIN_S = 10
"""How long (s) a target may take to answer, however short `--for` is."""
LAST_POLL_S = 1
"""How long (s) a poll that began within `--for` may take."""


@with_target_options(*OF_CHECKS)
def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="TARGET…",
            autocompletion=target_names,
            help="a run, a recording, or anything that 'wmtop attach' takes",
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="all that runs, is configured or is published")] = False,
    fail_if: Annotated[
        str | None, typer.Option(metavar="EXPR", help="exit 1 if it is true, e.g. 'level_lag > 10m or late_share > 1%'")
    ] = None,
    look_for: Annotated[
        int,
        typer.Option(
            "--for",
            parser=parsed(parse_duration),
            metavar="D",
            help="how long to wait for a verdict (30s)",
            show_default=False,
        ),
    ] = DEFAULT_FOR_MS,
    at: Annotated[
        int | None, typer.Option(parser=parsed(parse_time), metavar="TIME", help="a recording: that moment (its end)")
    ] = None,
    options: TargetOptions = NO_OPTIONS,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object a target")] = False,
) -> None:
    """Check a target: exit 0 fine, 1 slow, stalled or EXPR is true, 2 unusable input, 3 cannot tell."""
    expression = _parsed(fail_if)
    found = some_members(targets or [], every=every)
    if not found:
        raise UsageError("check what? Give a TARGET (a run, a recording, a checkpoint, …) or --all")
    asked = _Asked(expression, look_for, at, options)
    results: list[Checked] = []
    refused: list[UsageError] = []
    for result in _check_all(found, asked):
        if isinstance(result, UsageError):
            refused.append(result)
            continue
        results.append(result)
        if json:
            print(msgspec.json.encode(result).decode(), flush=True)
    if refused and not results:
        raise refused[0]
    if not json:
        columns = shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns
        print("\n".join(table(results, columns) if every else [line for result in results for line in lines(result)]))
    for error in refused:  # what is wrong with one target hides nothing of the others
        print(f"wmtop: {error}", file=sys.stderr)
    codes = [result.exit for result in results] + [UNUSABLE] * len(refused)
    raise typer.Exit(next((code for code in (MET, UNUSABLE, CANNOT_TELL) if code in codes), FINE))


class _Asked(Struct, frozen=True):
    """The options that apply to every target."""

    expression: Expression | None
    for_ms: int
    at: int | None
    options: TargetOptions


def _parsed(text: str | None) -> Expression | None:
    if text is None:
        return None
    try:
        return parse_condition(text)
    except ValueError as error:
        raise UsageError(f"--fail-if: {error}") from None


def _check_all(members: list[Member], asked: _Asked) -> Iterator[Checked | UsageError]:
    """Check all targets at the same time; results in order, also `UsageError`s. A hanging target delays no other."""
    outcomes: dict[str, Checked | Exception] = {}
    seen: dict[str, Checked] = {}

    def look(member: Member) -> None:
        try:
            outcomes[member.name] = _check(member, asked, seen)
        except Exception as error:  # noqa: BLE001 - it is raised, or reported, by the thread that waits
            outcomes[member.name] = error

    threads = {
        each.name: threading.Thread(target=look, args=(each,), name=f"{READER_THREAD}{each.name}", daemon=True)
        for each in members
    }
    for thread in threads.values():
        thread.start()
    limit_s = hangs_after_s(asked.for_ms)
    until = clock.monotonic() + limit_s
    for name, thread in threads.items():
        thread.join(max(until - clock.monotonic(), 0))
        outcome = outcomes.get(name)
        if isinstance(outcome, Exception) and not isinstance(outcome, UsageError):
            raise outcome
        yield outcome or seen.get(name) or _unknown(name, f"{NO_ANSWER} {duration(limit_s * 1_000)}")


def hangs_after_s(for_ms: int) -> float:
    """The time (s) after which `check` no longer waits for a target that does not answer."""
    return max(for_ms / 1_000, MIN_S) + LAST_POLL_S


def _check(member: Member, asked: _Asked, seen: dict[str, Checked]) -> Checked:
    """Check one target; `seen` gets what was found so far, in case its next poll takes too long."""
    expression = _parsed(member.fail_if) if asked.expression is None else asked.expression

    def decided(look: Look) -> bool:
        if look.snapshot is None:
            return False
        given = look.given()
        if _decided(given, expression):
            return True
        seen[member.name] = _result(member.name, given, expression)
        return False

    try:
        look = look_at(member, decided, asked.for_ms, asked.at, asked.options)
    except RunError as error:
        return _unknown(member.name, first_line(error))
    except UsageError as error:
        if not member.forgiving:
            raise
        return _unknown(member.name, first_line(error))
    return _result(member.name, look.given(), expression)


def _decided(given: CheckInput, expression: Expression | None) -> bool:
    """Whether more time would not change the answer.

    True if the target has ended or begins no batches, if the expression is true, or if verdict and expression are
    known.
    """
    if given.snapshot.state in ("failed", "ended") or _begins_nothing(given.snapshot):
        return True
    if expression is not None and evaluate(expression, given).met:
        return True
    return given.verdict != "unknown" and (expression is None or evaluate(expression, given).met is not None)


def _begins_nothing(snapshot: Snapshot) -> bool:
    """Whether the query has begun no batch for so long that a few seconds more would not change the answer."""
    return any(
        note.code in ("pause_unknown", "continuous") or (snapshot.state == "stale" and note.code in _BEGINS_NOTHING)
        for note in snapshot.notes
    )


def _unknown(target: str, reason: str) -> Checked:
    """The result for an unreadable target: unknown, never fine."""
    return Checked(target, "unknown", reason, [], dict.fromkeys(FACTS), CANNOT_TELL)


def _result(target: str, given: CheckInput, expression: Expression | None) -> Checked:
    snapshot = given.snapshot
    said = [explain(finding, snapshot, None) for finding in given.findings]
    exit_code = MET if given.verdict in BAD else CANNOT_TELL if given.verdict == "unknown" else FINE
    met = not_known = None
    if expression is not None:
        outcome = evaluate(expression, given)
        exit_code = {True: MET, False: FINE, None: CANNOT_TELL}[outcome.met]
        met, not_known = (outcome.words if outcome.met else None), (outcome.words if outcome.met is None else None)
    return Checked(
        target=target,
        verdict=given.verdict,
        reason=reason_of(given, said),
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
        facts=facts_of(given),
        exit=exit_code,
        met=met,
        not_known=not_known,
        held_back_by=held_back_by(snapshot),
    )
