"""The words for a plug-in's target: its facts by its own names. Pure."""

from ....engine.snapshot import Other, OtherFact, Snapshot
from ....engine.text import formatting as f
from ..fact_values import Value
from ..preview import Preview
from ..spans import Part, part
from .presenter import Presenter, What

_MAX_FACTS = 4
"""Facts of a plug-in on the main screen, at most."""


class OtherWords(Presenter):
    """A plug-in's target."""

    def __init__(self, snapshot: Snapshot, other: Other) -> None:
        super().__init__(snapshot)
        self._other = other

    def named_facts(self) -> dict[str, Value]:
        """`kind.name`."""
        return {f"{self._other.kind}.{fact.name}": fact.value for fact in self._other.facts}

    def further_facts(self) -> list[tuple[str, str]]:
        return [(f.label(fact.name), fact_text(fact)) for fact in self._other.facts]

    def _settings(self, preview: Preview | None) -> list[Part]:
        """Its first facts."""
        return [
            part((f" {name} ", "dim"), (value, "strong"), rank=4) for name, value in self.further_facts()[:_MAX_FACTS]
        ]

    def _none(self) -> dict[What, str]:
        return {**super()._none(), "barrel": "no channel has records", "channels": "The plug-in reports no channels"}


def fact_text(fact: OtherFact) -> str:
    """The value with its unit: ms as a duration, any other unit after the number."""
    value = fact.value
    if value is None or isinstance(value, str):
        return f.UNKNOWN if value is None else f.label(value)
    if fact.unit == "ms":
        return f.duration(value)
    number = f.count(value) if isinstance(value, int) else f"{value:.2f}"
    return f"{number} {f.label(fact.unit)}" if fact.unit else number
