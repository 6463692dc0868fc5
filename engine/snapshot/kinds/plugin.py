"""The part of a snapshot that a plug-in's target has: named facts."""

from msgspec import Struct, field

from .any_target import AnyTarget


class OtherFact(Struct, frozen=True):
    """A fact of a plug-in's target: a word of the plug-in's, its value, and its unit; "ms" is shown as a duration."""

    name: str
    value: float | int | str | None
    """None: not known."""
    unit: str = ""


class Other(AnyTarget, frozen=True):
    """What only a plug-in's kind of target has; `kind` is the scheme of its addresses."""

    kind: str
    facts: list[OtherFact] = field(default_factory=list[OtherFact])

    @property
    def target_kind(self) -> str:
        return self.kind
