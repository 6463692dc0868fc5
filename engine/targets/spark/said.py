"""The notes on an existing query, as codes: its troubles, and what is not known about it. Pure."""

from collections.abc import Iterator, Sequence

from ...snapshot import BarrelRule, NoteCode, SiblingQuery, SparkProgress, Windows
from .checkpoint.checkpoint import CheckpointFacts
from .nodes import Node
from .query_channels import Tapped

Said = tuple[NoteCode, dict[str, str | int | None]]
"""The code of a note, and its arguments."""


def why(code: NoteCode, text: str | None) -> Said | None:
    """A note that has a line as its reason; None without one."""
    return (code, {"why": text}) if text else None


def windows_unknown(windows: Windows) -> Said | None:
    """Why windows, or newer ones, are unknown: the code and its arguments."""
    return None if windows.unknown is None else ("windows_unknown", {**windows.unknown_args, "code": windows.unknown})


def unreadable(*lines: str | None) -> list[Said | None]:
    """The note on unreadable files."""
    return [why("unreadable", line) for line in lines]


def is_pause(said: Said | None) -> bool:
    """Whether a note means that no batch has begun for longer than usual."""
    return said is not None and said[0] in ("pause_unknown", "waits_for_trigger", "no_batch_ended")


def continuous(checkpoint: CheckpointFacts | None) -> Said | None:
    """The note on continuous processing."""
    return None if checkpoint is None or not checkpoint.continuous else ("continuous", {})


def newer_format(version: str | None) -> Said | None:
    """The note on a checkpoint of an unknown Spark version."""
    return None if version is None else ("newer_format", {"version": version})


def not_known(nodes: Sequence[Node], inputs: Sequence[Tapped], barrel: BarrelRule | None) -> list[Said]:
    """The notes on what the job's taps do not report."""
    notes: list[Said] = [
        ("channels_sampled", {"tap": one.tap.name, "kept": one.tap.sampled.kept, "of": one.tap.sampled.of})
        for one in inputs
        if one.tap.sampled is not None
    ]
    bare = [node.column or "window" for node in nodes if not node.taps]
    if barrel is not None and inputs and bare:
        notes.append(("nodes_without_tap", {"columns": ", ".join(bare)}))
    return notes


def time_needed(nodes: Sequence[Node]) -> Said:
    """The note on a watermark on another column than the records' own timestamps."""
    known = [node.column for node in nodes if node.column is not None]
    return "time_needed", {"column": ", ".join(known) or None}


def sibling_failed(siblings: Sequence[SiblingQuery] | None) -> Said | None:
    """The note on another failed query of the application."""
    failed = [one for one in siblings or () if one.state == "failed"]
    if not failed:
        return None
    return "sibling_failed", {"name": failed[0].name, "why": failed[0].error, "more": len(failed) - 1 or None}


def troubles_of_watermark(spark: SparkProgress, checkpoint: CheckpointFacts | None, *, begun: bool) -> Iterator[Said]:
    """The note on a watermark that is missing, never moves, or is frozen; `begun`: a batch has begun."""
    for reason in ("no_input", "own_output"):
        pinned = [node.column or "window" for node in spark.nodes or () if node.pinned == reason]
        if pinned:
            yield "watermark_pinned", {"columns": ", ".join(pinned), "why": reason}
    if spark.never_moved and not any(node.pinned for node in spark.nodes or ()):
        empty = [
            one.offsets.source for one in (checkpoint.sources if checkpoint else ()) if one.offsets.kind == "nothing"
        ]
        args = {"nodes": len(spark.nodes or ()), "sources": ", ".join(empty) or None, "why": spark.unmoved}
        yield "watermark_unmoved", args
    if spark.frozen_ms is not None:
        yield "watermark_frozen", {"frozen_ms": spark.frozen_ms}
    if begun and not spark.has_watermark:
        yield "no_watermark", {"sure": 1 if spark.has_watermark is False else None}
