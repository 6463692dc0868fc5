"""The list of targets: configured ones, running engines, published queries."""

from collections.abc import Iterable

from msgspec import Struct

from ...engine.feed import run_directory
from ...engine.system.errors import UsageError
from ...engine.targets.target import NO_OPTIONS, TargetOptions
from .config import config, configured
from .target_options import target_options


class Member(Struct, frozen=True):
    """A target: its name, its address for `wmtop attach`, and its options."""

    name: str
    target: str
    options: TargetOptions = NO_OPTIONS
    forgiving: bool = False
    """If it cannot be read, it is lost instead of wrong input: it did exist."""
    fail_if: str | None = None


def member_of(name: str) -> Member:
    """A target as given by a user: a configured name, or any target of `wmtop attach`."""
    found = configured(name)
    if found is None:
        return Member(name, name)
    return Member(name, found.attach, target_options(**found.options), forgiving=True, fail_if=found.fail_if)


def free_name(member: Member) -> str | None:
    """The name for a run that follows a configured target: the target's, unless a run has it."""
    is_free = member.forgiving and all(run.name != member.name for run in run_directory.list_runs())
    return member.name if is_free else None


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
    from ...engine.targets.spark.reports import list_published

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
            out[name] = Member(name, job.name, target_options(query=query.name or query.id), forgiving=True)
    return list(out.values())
