"""`wmtop chain`: where a pipeline of topics and jobs loses its event time; the chain as a target; `demo --chain`."""

import os
from collections.abc import Sequence
from contextlib import closing
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from msgspec import Struct

from ... import sample_data
from ...engine.feed.alert_command import parse_command
from ...engine.feed.messages import json_of
from ...engine.feed.run_directory import run_dir
from ...engine.snapshot import Chain, Holder, Level, Snapshot, SourceView, Windows
from ...engine.snapshot.continuity import held_since
from ...engine.system.errors import UsageError
from ...engine.system.places import variable_path
from ...engine.targets.fleet import TargetWatch, Watcher
from ...engine.targets.target import NOT_KNOWN, AttachedTarget, Target
from ...engine.text.formatting import DAY, counted
from ...engine.watermarks.counts import NOTHING_COUNTED
from ..words.chain import text_lines
from .attach import watch
from .config import FILE_VARIABLE, appearance
from .fleet import chain_now, open_fleet, place_in_kafka, watcher_of, watching
from .options import (
    EngineArguments,
    Force,
    OnAlert,
    Record,
    RecordKeep,
    duration_option,
    flag,
    parse_time,
    place_argument,
    target_options,
)
from .running import has_terminal
from .targets import Member, members, shown_zone

if TYPE_CHECKING:  # only the demo starts Spark and Flink
    from ...engine.run.demo_pipeline import Pipeline

FIRST_LOOK_MS = 10_000
NAME = "chain"


class ChainLook(Struct, frozen=True):
    """The chain at one moment, and the targets that do not answer."""

    chain: Chain
    lost: Sequence[str] = ()


class ChainTarget(Target[ChainLook]):
    """The configured targets as one: it is watched, checked and recorded as any other."""

    step = "looking at the targets"

    def __init__(self, found: Sequence[Member]) -> None:
        self._members = {member.name: member for member in found}
        self._watcher: Watcher | None = None
        self._holder: Holder | None = None

    @property
    def every_s(self) -> float:
        return appearance().refresh_ms / 1_000

    @property
    def empty(self) -> Chain:
        return Chain([], [])

    def describe(self) -> SourceView:
        return SourceView(NAME, counted(len(self._members), "target"))

    def open(self) -> None:
        self._watcher = watcher_of(self._members.values, self.every_s)
        self._watcher.start()

    def poll(self) -> ChainLook:
        watcher = self._watching
        chain, _ = chain_now(watcher, self._members)
        return ChainLook(chain, [watch.status.name for watch in watcher.watches() if watch.status.lost is not None])

    def look(self) -> ChainLook:
        """The chain once every target was looked at."""
        self._watching.wait(was_looked_at_twice, FIRST_LOOK_MS / 1_000)
        return self.poll()

    def picture(self, name: str, facts: ChainLook, now_ms: int) -> Snapshot:
        """Its watermark is the event time at the end of the shown way; no hop is a channel."""
        chain = facts.chain
        last_ms = chain.hops[chain.way[-1]].own_ms if chain.way else None
        self._holder = _holder(chain, self._holder, now_ms)
        return Snapshot(
            name=name,
            state="partial" if facts.lost else "live",
            now_ms=now_ms,
            wall_ms=now_ms,
            settings=NOT_KNOWN,
            source=self.describe(),
            level=Level(last_ms, None, None if last_ms is None else now_ms - last_ms, self._holder),
            verdict=chain.verdict,
            windows=Windows(open_count=None, fired=None, late_firings=None),
            totals=NOTHING_COUNTED,
            target=chain,
            origin={"level": NAME},
        )

    def close(self) -> None:
        if self._watcher is not None:
            self._watcher.stop()

    @property
    def _watching(self) -> Watcher:
        assert self._watcher is not None, "open comes first"
        return self._watcher


def _holder(chain: Chain, before: Holder | None, now_ms: int) -> Holder | None:
    """The worst hop with the cause of its own loss; None where another hop may be to blame."""
    if chain.worst is None:
        return None
    hop = chain.hops[chain.worst]
    if hop.cause is None or hop.includes:
        return None
    cause = "lateness" if hop.cause == "lateness_raised" else hop.cause  # of this one hop: alerts name it
    return held_since(Holder(hop.name, now_ms, cause), before, now_ms, was_watched=False, of_cause=True)


def was_looked_at_twice(watch: TargetWatch) -> bool:
    """Only the second look is at the same time for all."""
    return len(watch.points) > 1


def chained(file: Path | None) -> list[Member]:
    """The targets of the chain, by the configuration in force or by `file`; UsageError if no topic is configured."""
    if file is not None:
        os.environ[FILE_VARIABLE] = str(file.absolute())
    found = members()
    if not any(member.reads or member.writes or place_in_kafka(member)[1] for member in found):
        example = 'e.g. [targets.orders] attach = "kafka://broker:9092/orders", time = "timestamp"'
        raise UsageError(f"no topic is configured, so there is no chain; name topics and jobs as targets, {example}")
    return found


def chain_member(files: Sequence[str], *, every: bool) -> Member:
    """The chain of at most one configuration as a target; UsageError for more, or with `--all`."""
    if every or len(files) > 1:
        raise UsageError("--chain is one chain: give at most its configuration, and no --all")
    file = variable_path("--chain", files[0]) if files else None
    return Member(NAME, NAME, made=AttachedTarget(ChainTarget(chained(file)), NAME))


def chain(
    file: Annotated[Path | None, place_argument("[CONFIG]", "a configuration file (that of 'wmtop config')")] = None,
    look_for: Annotated[int, duration_option("how long to wait for a target (10s)", "--for")] = FIRST_LOOK_MS,
    record: Record = None,
    record_keep: RecordKeep = DAY,
    on_alert: OnAlert = None,
    force: Force = False,
    once: Annotated[bool, flag("--once", "print the hops once")] = False,
    json: Annotated[bool, flag("--json", "print one JSON object")] = False,
) -> None:
    """Show where the configured topics and jobs lose event time, hop by hop; without a terminal print it once.

    `reads` and `writes` of the configuration join what does not report its topics. With --record or --on-alert it is
    followed without a screen until it is stopped.
    """
    found = chained(file)
    if record is not None or on_alert is not None:
        if once or json:
            raise UsageError("--record and --on-alert follow the chain; leave out --once and --json")
        code = watch(ChainTarget(found), None, NAME, record, record_keep, on_alert=parse_command(on_alert), force=force)
        raise typer.Exit(code)
    if not (once or json) and has_terminal():
        open_fleet(on_chain=True)
        return
    with watching(lambda: found) as watcher:
        watcher.wait(was_looked_at_twice, look_for / 1_000)
        shown, at_ms = chain_now(watcher, {member.name: member for member in found})
    if json:
        print(json_of({"version": 1, "wall_ms": at_ms, **msgspec.to_builtins(shown)}).decode())
        return
    for line in text_lines(shown, shown_zone()):
        print(line)


DEMO_SPEED = 120.0
_DEMO_LATENESS_MS = 1_800_000


def demo_chain(engine: EngineArguments, speed: float | None) -> None:
    """Start a pipeline of real topics and jobs on this machine, and show its chain until the user quits."""
    from ...engine.run.demo_pipeline import Pipeline

    for field in fields(EngineArguments):
        if field.name != "lateness" and getattr(engine, field.name) != field.default:
            option = field.name.replace("_", "-")
            raise UsageError(f"--{option} has no meaning with --chain, whose jobs are not wmtop's own: leave it out")
    if not has_terminal():
        raise UsageError("demo --chain needs a terminal")
    run_dir()  # else its Spark job could not report itself
    pipeline = Pipeline(
        sample_data.flights(),
        speed=speed,
        start_ms=parse_time(sample_data.DEMO_START),
        lateness_ms=_DEMO_LATENESS_MS if engine.lateness is None else engine.lateness,
    )
    with closing(pipeline):
        pipeline.start()
        open_fleet(partial(members_of, pipeline), on_chain=True, holds=pipeline)


def members_of(pipeline: "Pipeline") -> list[Member]:
    """The topics and jobs of the pipeline as targets; none while it starts."""
    from ...engine.run.demo_pipeline import CONSUMER, DELAYS, FLIGHTS, FLINK_JOB, REPORTS, SPARK_JOB

    if not pipeline.has_started:
        return []
    bootstrap = pipeline.bootstrap
    kafka = f"kafka://{bootstrap}"
    return [
        Member(FLIGHTS, f"{kafka}/{FLIGHTS}", target_options(time=sample_data.TIME)),
        Member(SPARK_JOB, str(pipeline.checkpoint), target_options(bootstrap=bootstrap, time=sample_data.TIME)),
        Member(DELAYS, f"{kafka}/{DELAYS}", target_options(time="time")),
        Member(FLINK_JOB, pipeline.flink, target_options(bootstrap=bootstrap, time="time"), writes=(REPORTS,)),
        Member(REPORTS, f"{kafka}/{REPORTS}", target_options(time="time")),
        Member(CONSUMER, f"{kafka}/{REPORTS}", target_options(group=CONSUMER, time="time")),
    ]
