"""The words for a chain as a target. Pure."""

from datetime import tzinfo

from ....engine.snapshot import Chain, Snapshot
from ....engine.text import formatting as f
from ..chain import headline, text_lines
from ..fact_values import Kind, Value, bounded
from ..preview import Preview
from ..spans import Part, part
from .presenter import Presenter, What

BEHIND = "chain.behind"
NAMED_FACTS: dict[str, Kind] = {BEHIND: "duration"}
"""The facts that only a chain has, and the type of their values."""


class ChainWords(Presenter):
    """A chain as a target: its hops are listed where another target has channels."""

    def __init__(self, snapshot: Snapshot, chain: Chain) -> None:
        super().__init__(snapshot)
        self._chain = chain

    def headline(self) -> str:
        """How far its end is behind its start, and where that is lost."""
        return headline(self._chain)

    def named_facts(self) -> dict[str, Value]:
        """What the shown way loses."""
        return {BEHIND: bounded(self._chain.behind_ms, is_part=self._chain.behind_at_least)}

    def listing(self, zone: tzinfo | None) -> list[str]:
        """The hops."""
        return list(text_lines(self._chain, zone))

    def summary(self, judged: str) -> list[str]:
        return [*super().summary(judged)[:2], *self.listing(None)]

    def _settings(self, preview: Preview | None) -> list[Part]:
        return [part((f" {f.counted(len(self._chain.hops), 'hop')}", "dim"))]

    def tuning(self, preview: Preview | None, recent_late: float | None) -> list[Part]:
        return self._settings(preview)

    def holder(self, zone: tzinfo | None) -> list[Part]:
        return [] if self._snapshot.ended else [part((f" {headline(self._chain)}", "text"))]

    def _none(self) -> dict[What, str]:
        text = "\n".join(text_lines(self._chain, None))
        judged = "Each hop is judged by what its own target shows."
        return {**super()._none(), "barrel": text, "channels": text, "judgement": judged}
