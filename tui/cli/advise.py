"""`wmtop advise` and `wmtop preview`: the recommended lateness and idle timeout; what another one would do now."""

import json as std_json
from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from ...engine.doctor import diagnose
from ...engine.doctor.lateness import LateCause, late_cause_of
from ...engine.feed.client import first_snapshot
from ...engine.snapshot import Snapshot
from ...engine.snapshot.recommendation import Advice, advice, known_horizons, recommendation
from ...engine.system.errors import RunError, UsageError
from ...engine.targets.own import Recording, is_recording, own_run
from ...engine.targets.target import NO_OPTIONS, TargetOptions
from ...engine.text.formatting import NO_DATA, clean, counted, duration, setting, stamp
from ...engine.text.job_lines import lines_in_jobs
from ...engine.verdict.preview import AppliedNow, applied_now
from ..words import preview as from_start
from ..words.kinds import presenter_of
from ..words.lateness import FLINKS_RULE, LINE_NAMES, advice_lines, cause_lines
from .names import target_argument
from .options import (
    AtTime,
    duration_option,
    flag,
    off_option,
    option,
    or_off,
    parse_duration,
    parse_share,
    with_target_options,
)
from .targets import Look, Member, look_at, member_of, recording_at, what_was_read

CANNOT_TELL = 3
DEFAULT_FOR_MS = 10_000
_CAUSE = ("column", "value", "late", "late_share", "share", "lift", "also")


@with_target_options("query")
def advise(
    target: Annotated[str, target_argument("a run, a recording, a tapped query, or what 'wmtop attach' takes")],
    share: Annotated[
        float, option("Q", "the share on time (99.9%)", "--target", parse=parse_share, show_default=False)
    ] = 0.999,
    horizon: Annotated[
        int | None,
        option(
            "D|all",
            "of the records of the last D: 15m, 1h, 24h (as needed)",
            parse=lambda text: -1 if text == "all" else parse_duration(text),
        ),
    ] = None,
    at: AtTime = None,
    look_for: Annotated[int, duration_option("how long to wait (10s)", "--for")] = DEFAULT_FOR_MS,
    options: TargetOptions = NO_OPTIONS,
    json: Annotated[bool, flag("--json", "print one JSON object")] = False,
) -> None:
    """Recommend a lateness and an idle timeout, with evidence; exit 3 if the target has none."""
    member = member_of(target)

    def decided(look: Look) -> bool:
        return look.snapshot.state != "starting" and bool(known_horizons(look.snapshot))

    look = look_at(member, decided, look_for, at, options)
    snapshot = look.snapshot
    found = _advice(snapshot, target, share, horizon)
    if found is None:
        why = presenter_of(snapshot).no_advice(clean(member.name), member.target, recorded=is_recording(member.target))
        nothing = msgspec.to_builtins(recommendation(snapshot, share))
        missing = {"target": target, "lateness_ms": None, "recommendation": nothing, "why": why}
        print(std_json.dumps(missing) if json else "\n".join(why))
        raise typer.Exit(CANNOT_TELL)
    lines = _lines_for(snapshot, found)
    if json:
        print(std_json.dumps({**_advice_json(target, snapshot, found, lines), "read": look.read}))
    else:
        print("\n".join(_text(f"{clean(target)} ({clean(look.read)})", snapshot, found, lines)))
    if found.lateness is None:
        raise typer.Exit(CANNOT_TELL)


def _advice(snapshot: Snapshot, target: str, share: float, horizon: int | None) -> Advice | None:
    """The advice for the requested horizon, by default the shortest that gives one."""
    horizons = known_horizons(snapshot)
    if not horizons or horizon is None:
        return advice(snapshot, share)
    wanted = or_off(horizon)
    if wanted not in horizons:
        asked, *known = ["all" if each is None else setting(each) for each in (wanted, *horizons)]
        raise UsageError(f"--horizon {asked}: not known for {clean(target)}; known: {', '.join(known)}")
    return advice(snapshot, share, wanted)


def _lines_for(snapshot: Snapshot, found: Advice) -> dict[str, str]:
    if found.lateness is None:
        return {}
    columns = {node.column for node in snapshot.spark.nodes or () if node.column}
    column = columns.pop() if len(columns) == 1 else "ts"
    idle = None if found.idle is None else found.idle.idle_after_ms
    return lines_in_jobs(found.lateness.lateness_ms, idle, column)


def _advice_json(target: str, snapshot: Snapshot, found: Advice, lines: dict[str, str]) -> dict[str, Any]:
    """`lateness_ms` and `idle_after_ms` are the recommended values (null: none possible, or off)."""
    return {
        **msgspec.to_builtins(found),
        "target": target,
        "share": found.recommendation.target,
        "horizon_ms": found.recommendation.horizon_ms,
        "records": found.recommendation.records,
        "lateness_ms": found.recommendation.lateness_ms,
        "idle_after_ms": None if found.idle is None else found.idle.idle_after_ms,
        "lines": lines,
        "causes": [{name: getattr(cause, name) for name in _CAUSE} for cause in _causes(snapshot)],
        "explain": msgspec.to_builtins(snapshot.own.explain),
    }


def _causes(snapshot: Snapshot) -> list[LateCause]:
    """What most late records have in common."""
    cause, is_found = late_cause_of(snapshot), any(found.code == "late-cause" for found in diagnose(snapshot, []))
    return [] if cause is None or not is_found else [cause]


def _text(title: str, snapshot: Snapshot, found: Advice, lines: dict[str, str]) -> Iterator[str]:
    yield f"{title}:"
    yield from advice_lines(found)
    for cause in _causes(snapshot):
        yield from cause_lines(cause)
    if lines:
        yield ""
        width = max(map(len, LINE_NAMES.values()))
        yield from (f"  {LINE_NAMES[kind]:<{width}}  {line}" for kind, line in lines.items())
        if len(snapshot.channels) > 1 and not snapshot.one_clock:
            yield FLINKS_RULE


def preview(
    target: Annotated[str, target_argument("a running engine, or a recording")],
    lateness: Annotated[int | None, duration_option("another max out-of-orderness")] = None,
    idle_after: Annotated[int | None, off_option("another idle timeout")] = None,
    at: AtTime = None,
    json: Annotated[bool, flag("--json", "print one JSON object")] = False,
) -> None:
    """Show what a change of a setting would do at the next emit; nothing is changed."""
    if lateness is not None and idle_after is not None:
        raise UsageError("--lateness and --idle-after: preview one setting at a time")
    if lateness is None and idle_after is None:
        raise UsageError("preview what? Give --lateness D or --idle-after D|off, e.g. --idle-after 2h")
    snapshot, read = _snapshot(member_of(target), at)
    try:
        if lateness is not None:
            now = applied_now(snapshot, lateness_ms=lateness)
            then = from_start.lateness(snapshot, lateness)
        else:
            assert idle_after is not None
            now = applied_now(snapshot, idle_after_ms=or_off(idle_after))
            then = from_start.idle(snapshot, or_off(idle_after))
    except ValueError as error:
        raise UsageError(f"{clean(target)}: {error}") from None
    if now is None:
        raise RunError(
            f"{clean(target)} does not contain what the next emit depends on: its valve or its delay is not known"
        )
    whole = {
        **msgspec.to_builtins(now),
        "from_start": None if then is None else msgspec.to_builtins(then),
        "read": read,
    }
    print(std_json.dumps(whole) if json else f"{_line(snapshot, now)}  ({clean(read)})")


def _snapshot(member: Member, at: str | None) -> tuple[Snapshot, str]:
    """A recording's snapshot at a time, its last one, or the newest of a running engine; and what was read."""
    target = clean(member.name)
    opened = own_run(member.target)
    if opened is None:
        where = "" if "/" in member.target else "run or "
        raise UsageError(f"there is no {where}recording {target}; preview takes one, or the name of a running engine")
    if isinstance(opened, Recording):
        with recording_at(opened.path, at) as (reader, number):
            snapshot = reader.at(number)
            return snapshot, what_was_read(opened, snapshot, reader)
    if at is not None:
        raise UsageError(f"--at is for a recording, and {target} is not one")
    snapshot = first_snapshot(opened.socket, run_id=opened.run_id)
    return snapshot, what_was_read(opened, snapshot)


def _line(snapshot: Snapshot, now: AppliedNow) -> str:
    level, reached = snapshot.level.watermark_ms, now.watermark_ms
    moved = "" if level is None or reached is None else f" (+{duration(reached - level)})"
    holder = "" if now.holder is None else f", held back by {clean(now.holder)}"
    frozen = f", frozen for {duration(now.frozen_ms)} of event time" if now.frozen_ms else ""
    many = "at least " if now.fires_more else ""
    return (
        f"watermark {NO_DATA if reached is None else stamp(reached, None)}{moved}{holder}{frozen}; "
        f"{many}{counted(now.fires, 'window')} {'fires' if now.fires == 1 else 'fire'}"
    )
