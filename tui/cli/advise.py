"""`wmtop advise`: the recommended lateness and idle timeout, their evidence, and the line for the job."""

import json as std_json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from ...engine.doctor import diagnose
from ...engine.doctor.lateness import LateCause
from ...engine.snapshot import Snapshot
from ...engine.system.errors import UsageError
from ...engine.targets.target import NO_OPTIONS, TargetOptions
from ...engine.text.formatting import clean, setting
from ...engine.verdict.preview import lines_in_jobs
from ...engine.verdict.recommendation import Advice, advice, known_horizons
from ..words.lateness import LINE_NAMES, advice_lines, cause_lines
from .complete import target_names
from .look import Look, look_at
from .members import Member, member_of
from .options import parse_duration, parse_share, parse_time, parsed
from .target_options import with_target_options

CANNOT_TELL = 3
DEFAULT_FOR_MS = 10_000
USUAL_HORIZON_MS = 3_600_000


def _horizon(text: str) -> int:
    """A horizon in ms; -1: all."""
    return -1 if text == "all" else parse_duration(text)


@with_target_options("query")
def advise(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            autocompletion=target_names,
            help="a run, a recording, a tapped query, or what 'wmtop attach' takes",
        ),
    ],
    share: Annotated[
        float,
        typer.Option(
            "--target", parser=parsed(parse_share), metavar="Q", help="the share on time (99.9%)", show_default=False
        ),
    ] = 0.999,
    horizon: Annotated[
        int | None,
        typer.Option(parser=parsed(_horizon), metavar="D|all", help="of the records of the last D: 15m, 1h, 24h (1h)"),
    ] = None,
    at: Annotated[
        int | None, typer.Option(parser=parsed(parse_time), metavar="TIME", help="a recording: that moment (its end)")
    ] = None,
    look_for: Annotated[
        int,
        typer.Option(
            "--for", parser=parsed(parse_duration), metavar="D", help="how long to wait (10s)", show_default=False
        ),
    ] = DEFAULT_FOR_MS,
    options: TargetOptions = NO_OPTIONS,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object")] = False,
) -> None:
    """Recommend a lateness and an idle timeout, with evidence; exit 3 if the target has none."""
    member = member_of(target)
    snapshot = _seen(member, look_for, at, options)
    found = _advice(snapshot, target, share, horizon)
    if found is None:
        why = _no_evidence(member, snapshot)
        print(std_json.dumps({"target": target, "lateness_ms": None, "why": why}) if json else "\n".join(why))
        raise typer.Exit(CANNOT_TELL)
    lines = _lines_for(snapshot, found)
    if json:
        print(std_json.dumps(_as_json(target, snapshot, found, lines)))
    else:
        print("\n".join(_text(target, snapshot, found, lines)))
    if found.lateness is None:
        raise typer.Exit(CANNOT_TELL)


def _seen(member: Member, for_ms: int, at: int | None, options: TargetOptions) -> Snapshot:
    def decided(look: Look) -> bool:
        snapshot = look.snapshot
        return snapshot is not None and snapshot.state != "starting" and bool(known_horizons(snapshot))

    look = look_at(member, decided, for_ms, at, options)
    assert look.snapshot is not None
    return look.snapshot


def _advice(snapshot: Snapshot, target: str, share: float, horizon: int | None) -> Advice | None:
    """The advice for the requested horizon; by default for 1 h, or for all if there is no other."""
    horizons = known_horizons(snapshot)
    if not horizons:
        return None
    if horizon is None:
        wanted = USUAL_HORIZON_MS if USUAL_HORIZON_MS in horizons else None
        return advice(snapshot, share, wanted)
    wanted = None if horizon < 0 else horizon
    if wanted not in horizons:
        known = ", ".join("all" if each is None else setting(each) for each in horizons)
        raise UsageError(f"--horizon: {clean(target)} has records of {known}; give one of these")
    return advice(snapshot, share, wanted)


def _lines_for(snapshot: Snapshot, found: Advice) -> dict[str, str]:
    if found.lateness is None:
        return {}
    columns = {node.column for node in snapshot.spark.nodes or () if node.column}
    column = columns.pop() if len(columns) == 1 else "ts"
    idle = None if found.idle is None else found.idle.idle_after_ms
    return lines_in_jobs(found.lateness.lateness_ms, idle, column)


def _as_json(target: str, snapshot: Snapshot, found: Advice, lines: dict[str, str]) -> dict[str, Any]:
    """`lateness_ms` and `idle_after_ms` are the recommended values (null: none possible, or off)."""
    return {
        **msgspec.to_builtins(found),
        "target": target,
        "share": found.target,
        "lateness_ms": None if found.lateness is None else found.lateness.lateness_ms,
        "idle_after_ms": None if found.idle is None else found.idle.idle_after_ms,
        "lines": lines,
        "causes": [_cause(cause) for cause in _causes(snapshot)],
        "explain": msgspec.to_builtins(snapshot.explain),
    }


def _causes(snapshot: Snapshot) -> list[LateCause]:
    """What most late records have in common."""
    return [finding for finding in diagnose(snapshot, []) if isinstance(finding, LateCause)]


def _cause(cause: LateCause) -> dict[str, Any]:
    return {name: getattr(cause, name) for name in ("column", "value", "late", "late_share", "share", "lift", "also")}


def _text(target: str, snapshot: Snapshot, found: Advice, lines: dict[str, str]) -> Iterator[str]:
    yield f"{clean(target)}:"
    yield from advice_lines(found)
    for cause in _causes(snapshot):
        yield from cause_lines(cause)
    if lines:
        yield ""
        width = max(map(len, LINE_NAMES.values()))
        yield from (f"  {LINE_NAMES[kind]:<{width}}  {line}" for kind, line in lines.items())


def _no_evidence(member: Member, snapshot: Snapshot) -> list[str]:
    """Why there is no advice, and a command that collects the evidence."""
    from ...engine.targets.open import kind_at

    target, reported = member.target, clean(member.name)
    kind = kind_at(target)
    if kind == "topic":
        bootstrap, _, topic = target.partition("://")[2].partition("/")
        return [
            f"{reported}: only positions are known of a topic, not how late its records are. Read it once:",
            f"  wmtop run kafka {shlex.quote(bootstrap)} {shlex.quote(topic)} --time PATH --once --record {topic}.rec",
            f"  wmtop advise {topic}.rec --horizon all",
        ]
    if kind == "flink":
        return [
            f"{reported}: Flink's REST API does not report how late records are. Read the job's input once:",
            "  wmtop run kafka BOOTSTRAP TOPIC --time PATH --once --record input.rec",
            "  wmtop advise input.rec --horizon all",
        ]
    if snapshot.is_attached:
        return [
            f"{reported}: how late the records of this query are is not known from outside. Add two lines to its job:",
            "  from wmtop.engine import publish, tap",
            '  publish(spark); events = tap(events, "event_time", channel="partition")   # before withWatermark',
            "  then: wmtop advise NAME. Or replay its data: wmtop run replay FILE… --time COL --once --record run.rec",
        ]
    if snapshot.totals.records:
        strategy = snapshot.settings.strategy
        return [
            f"{reported}: no what-if: the strategy {strategy} has no lateness. "
            "Run the same input with --strategy bounded"
        ]
    recorded = Path(target).is_file()
    return [f"{reported}: no records yet{'' if recorded else '; try again later'}"]
