"""The list of targets: configured ones, running engines, published queries."""

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from ....engine.feed import run_directory
from ....engine.system.errors import UsageError
from ..config.force import config, configured


class Member(Struct, frozen=True):
    """A target: its name, its address for `wmtop attach`, and its options by parameter."""

    name: str
    target: str
    options: Mapping[str, Any] = {}
    forgiving: bool = False
    """If it cannot be read, it is lost instead of wrong input: it did exist."""
    fail_if: str | None = None


def member_of(name: str) -> Member:
    """A target as given by a user: a configured name, or any target of `wmtop attach`."""
    found = configured(name)
    if found is None:
        return Member(name, name)
    return Member(name, found.attach, found.options(), forgiving=True, fail_if=found.fail_if)


def members() -> list[Member]:
    """All configured, running or published targets, each once."""
    found = [member_of(name) for name in config().targets]
    taken = {member.target for member in found} | {member.name for member in found}
    running = [Member(run.name, run.name, forgiving=True) for run in run_directory.list_runs() if run.name not in taken]
    taken.update(member.name for member in running)
    return [*found, *running, *_published(taken)]


def some_members(names: Iterable[str], *, every: bool) -> list[Member]:
    """The named targets, and with `every` all; UsageError if `--all` finds none."""
    found = {name: member_of(name) for name in names}
    if every:
        for member in members():
            found.setdefault(member.name, member)
        if not found:
            raise UsageError(
                "--all: no engine is running, no target is configured and no query is published; name a TARGET"
            )
    return list(found.values())


def _published(taken: set[str]) -> list[Member]:
    """Published queries that run, failed, or whose job died; unless a job that runs publishes them again."""
    from ....engine.targets.spark.reports import list_published

    jobs = sorted(list_published(), key=lambda job: not job.publication.alive)
    out: dict[str, Member] = {}
    for job in jobs:
        for query in job.publication.queries:
            if query.ended and query.error is None:
                continue
            name = query.name or job.name
            if name in taken or (name in out and not job.publication.alive):
                continue
            if name in out:
                name = f"{job.name}/{name}"
            out[name] = Member(name, job.name, {"query": query.name or query.id}, forgiving=True)
    return list(out.values())
