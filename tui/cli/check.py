"""`wmtop check`: look at a target until a verdict is possible, print verdict and findings, and exit accordingly."""

import asyncio
import time as clock
from collections.abc import Generator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import replace

from ...engine.core.doctor import accounts_for, diagnose
from ...engine.core.doctor.progress import verdict_at
from ...engine.core.judgement.observer import SnapshotJudge
from ...engine.core.snapshot import Snapshot
from ...engine.errors import RunError, UsageError
from ...engine.feed import rundir
from ...engine.feed.client import Client
from ...engine.feed.messages import Header
from ...engine.feed.recording import RecordingReader
from ..present.check_facts import CheckInput, Value, facts_of
from ..present.diagnosis import Diagnosis, explain
from ..present.fail_if import Expression, evaluate, parse_fail_if
from ..present.formatting import clean, first_line
from ..present.recent import Recent
from .arguments import parsed
from .options import parse_duration, parse_time

if TYPE_CHECKING:
    from ...engine.taps.engine import Watched

FINE, MET, CANNOT_TELL = 0, 1, 3
DEFAULT_FOR_MS = 30_000
_BAD = ("slow", "stalled")


class CheckedFinding(Struct, frozen=True):
    """A finding as `--json` prints it; the first five names are contract."""

    code: str
    severity: str
    channels: list[str]
    cause: str
    fix: str
    title: str
    evidence: list[str]


class Checked(Struct, frozen=True):
    """The result for one target; `facts` are durations in ms, shares from 0 to 1, None where not known."""

    target: str
    verdict: str
    reason: str
    findings: list[CheckedFinding]
    facts: dict[str, Value]
    exit: int
    met: str | None = None
    """The comparisons that made `--fail-if` true, with their numbers."""
    not_known: str | None = None
    """The facts that `--fail-if` needs and this target does not have."""


class _Look(Struct):
    """What was seen of a target."""

    recent: Recent
    snapshot: Snapshot | None = None
    lost: str | None = None

    def given(self) -> CheckInput:
        """For facts and findings."""
        assert self.snapshot is not None
        past = self.recent.until(self.snapshot)
        findings = diagnose(self.snapshot, past, lost=self.lost)
        return CheckInput(self.snapshot, past, verdict_at(self.snapshot, past, lost=self.lost), findings)


def check(
    targets: Annotated[
        list[str] | None,
        typer.Argument(metavar="TARGET…", help="a run, a recording, or anything that 'wmtop attach' takes"),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="all running engines and published queries")] = False,
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
    bootstrap: Annotated[str | None, typer.Option(metavar="B", help="a query: the Kafka cluster it reads from")] = None,
    time: Annotated[str | None, typer.Option(metavar="PATH", help="kafka: event time, a field of a JSON value")] = None,
    group: Annotated[str | None, typer.Option(metavar="G", help="kafka: the consumer group")] = None,
    kafka_config: Annotated[Path | None, typer.Option(metavar="FILE", help="kafka: client properties")] = None,
    query: Annotated[str | None, typer.Option(metavar="NAME", help="event log, published: which query")] = None,
    json: Annotated[bool, typer.Option("--json", help="print one JSON object a target")] = False,
) -> None:
    """Check a target: exit 0 fine, 1 slow, stalled or EXPR is true, 2 unusable input, 3 cannot tell."""
    expression = _parsed(fail_if)
    names = [*(targets or []), *(_everything() if every else [])]
    if not names:
        raise UsageError("check what? Give a TARGET (a run, a recording, a checkpoint, …) or --all")
    options = {"bootstrap": bootstrap, "time": time, "group": group, "kafka_config": kafka_config, "query": query}
    codes = [_check(name, expression, look_for, at, options, json=json) for name in names]
    raise typer.Exit(next((code for code in (MET, CANNOT_TELL) if code in codes), FINE))


def _parsed(text: str | None) -> Expression | None:
    if text is None:
        return None
    try:
        return parse_fail_if(text)
    except ValueError as error:
        raise UsageError(f"--fail-if: {error}") from None


def _everything() -> list[str]:
    from ...engine.taps.events.published import list_published

    names = dict.fromkeys([run.name for run in rundir.list_runs()])
    names |= dict.fromkeys(name for job in list_published() for name in job.names)
    if not names:
        raise UsageError("--all: no engine is running and no query is published; name a TARGET")
    return list(names)


def _check(
    target: str, expression: Expression | None, for_ms: int, at: int | None, options: dict[str, Any], *, json: bool
) -> int:
    look = _seen(target, expression, for_ms, at, options)
    result = _result(target, look, expression)
    print(msgspec.json.encode(result).decode() if json else "\n".join(_lines(result)), flush=True)
    return result.exit


def _seen(target: str, expression: Expression | None, for_ms: int, at: int | None, options: dict[str, Any]) -> _Look:
    """Look at the target until the verdict (and the expression) is known, or the time is over."""
    from .attach import socket_of

    path = Path(target)
    if (socket := socket_of(target)) is not None:
        return asyncio.run(_engine(socket, expression, for_ms))
    if is_recording(path):
        return _recorded(path, at)
    if at is not None:
        raise UsageError(f"--at is for a recording, and {clean(target)} is not one")
    from .attach import watched_of

    watched = watched_of(target, **options)
    look = _Look(Recent())
    with opened(watched):
        until = clock.monotonic() + for_ms / 1_000
        for snapshot in pictures(watched, until):
            look.snapshot = snapshot
            look.recent.add(snapshot)
            if _decided(look, expression):
                break
    return look


def is_recording(path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        with RecordingReader(path):
            return True
    except UsageError:
        return False


def _recorded(path: Path, at: int | None) -> _Look:
    with RecordingReader(path) as reader:
        if not len(reader):
            raise UsageError(f"{path} holds no snapshot")
        number = len(reader) - 1 if at is None else reader.seek(at)
        points = [point for point in reader.points[: number + 1] if point is not None]
        return _Look(Recent(points), reader.at(number))


async def _engine(socket: Path, expression: Expression | None, for_ms: int) -> _Look:
    """A running engine: what it sends, its history first."""
    look = _Look(Recent())
    try:
        async with asyncio.timeout(for_ms / 1_000), aclosing(Client(socket, read_only=True).messages()) as messages:
            async for message in messages:
                if isinstance(message, Header):
                    look.recent = Recent(message.history)
                elif isinstance(message, Snapshot):
                    look.snapshot = message
                    look.recent.add(message)
                    if _decided(look, expression):
                        return look
        look.lost = "the engine stopped while it was checked"
    except TimeoutError:
        pass
    except RunError as error:
        look.lost = first_line(str(error))
    if look.snapshot is None:
        raise RunError(look.lost or f"the engine {socket.stem} sent no snapshot within {for_ms / 1_000:g} s")
    return look


@contextmanager
def opened(watched: "Watched[Any]") -> Generator[None]:
    watched.open()
    try:
        yield
    finally:
        watched.close()


def pictures(watched: "Watched[Any]", until: float, name: str = "check") -> Iterator[Snapshot]:
    """A snapshot with its verdict for each poll, one at least."""
    judge, first = SnapshotJudge(), True
    while True:
        facts, now_ms = watched.poll(), clock.time_ns() // 1_000_000
        seen = watched.picture(name, facts, now_ms)
        if first:
            judge.remember(watched.past(facts, now_ms))
            first = False
        yield replace(seen, verdict=judge.verdict(seen))
        if clock.monotonic() + watched.every_s >= until:
            return
        clock.sleep(watched.every_s)


def _decided(look: _Look, expression: Expression | None) -> bool:
    """Whether more time would not change the answer: it is over, or there is a verdict and the expression is known."""
    if look.snapshot is None:
        return False
    if look.snapshot.state in ("failed", "ended"):
        return True
    given = look.given()
    return given.verdict != "unknown" and (expression is None or evaluate(expression, given).met is not None)


def _result(target: str, look: _Look, expression: Expression | None) -> Checked:
    given = look.given()
    snapshot = given.snapshot
    said = [explain(finding, snapshot, None) for finding in given.findings]
    exit_code = MET if given.verdict in _BAD else CANNOT_TELL if given.verdict == "unknown" else FINE
    met = not_known = None
    if expression is not None:
        outcome = evaluate(expression, given)
        exit_code = {True: MET, False: FINE, None: CANNOT_TELL}[outcome.met]
        met, not_known = (outcome.words if outcome.met else None), (outcome.words if outcome.met is None else None)
    return Checked(
        target=target,
        verdict=given.verdict,
        reason=_reason(given, said),
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
    )


def _reason(given: CheckInput, said: Sequence[Diagnosis]) -> str:
    """The verdict in words: of a bad one the first finding that accounts for it."""
    if given.verdict in (*_BAD, "unknown"):
        pairs = zip(given.findings, said, strict=True)
        return next(
            (one.title for finding, one in pairs if accounts_for(finding, given.verdict)), _REASONS[given.verdict]
        )
    if given.verdict == "ended" and given.snapshot.origin is not None:
        return "The query was stopped"
    return _REASONS[given.verdict]


_REASONS = {
    "moving": "The watermark advances",
    "waiting": "No record has come lately, and nothing is unread",
    "ended": "The stream has ended",
    "slow": "Event time loses ground",
    "stalled": "The watermark does not advance",
    "unknown": "Too little is known for a verdict",
}


def _lines(result: Checked) -> Iterator[str]:
    yield f"{clean(result.target)}: {result.verdict.upper()}  {result.reason}"
    if result.met is not None:
        yield f"  true: {result.met}"
    if result.not_known is not None:
        yield f"  not known from this target: {result.not_known}"
    for finding in result.findings:
        yield f"  {finding.severity}: {finding.title}"
        yield f"    {finding.cause}"
        if finding.fix:
            yield f"    fix: {finding.fix}"
