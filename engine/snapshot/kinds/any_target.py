"""What every kind of target can be asked: the base of the parts of a snapshot that only one kind has."""

from typing import ClassVar

from msgspec import Struct


class AnyTarget(Struct, frozen=True):
    """What only one kind of target has, and its abilities: shared code asks what a target can, never which kind it is.

    The answers here are those of a target that another program runs and of which little is known; a kind overrides what
    it knows better.
    """

    is_own: ClassVar[bool] = False
    """Whether it is an engine of wmtop: it counts each record, and its settings can be changed from here."""

    @property
    def target_kind(self) -> str:
        """The name of the kind in JSON: one of `TargetKind`, or a plug-in's own."""
        raise NotImplementedError
