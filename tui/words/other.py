"""The facts that only a plug-in's target has, by name, value and unit. Pure."""

from collections.abc import Iterator

from ...engine.snapshot import Other, OtherFact, Snapshot
from ...engine.text import formatting as f


def facts_of_plugin(snapshot: Snapshot) -> list[OtherFact]:
    """The facts of a plug-in's target; empty for every other."""
    return snapshot.target.facts if isinstance(snapshot.target, Other) else []


def fact_text(fact: OtherFact) -> str:
    """The value with its unit: ms as a duration, any other unit after the number."""
    value = fact.value
    if value is None or isinstance(value, str):
        return f.UNKNOWN if value is None else f.label(value)
    if fact.unit == "ms":
        return f.duration(value)
    number = f.count(value) if isinstance(value, int) else f"{value:.2f}"
    return f"{number} {f.label(fact.unit)}" if fact.unit else number


def named_facts(snapshot: Snapshot) -> Iterator[tuple[str, float | str | None]]:
    """The facts as `check` names them: `kind.name`."""
    if isinstance(other := snapshot.target, Other):
        yield from ((f"{other.kind}.{fact.name}", fact.value) for fact in other.facts)
