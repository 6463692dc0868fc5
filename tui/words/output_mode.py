"""What a Spark query's output mode means for its windows. Pure."""

from ...engine.snapshot import Snapshot
from ...engine.text import formatting as f


def output_words(snapshot: Snapshot) -> str | None:
    """The output mode, and what it means for the windows; None: not known."""
    mode = snapshot.spark.output_mode
    kept = snapshot.windows.kept
    windowed = any(one.windowed for one in snapshot.spark.operators or ())
    if mode == "complete":
        ended = "" if kept is None or not windowed else f"; {f.count(kept)} ended windows stay in state"
        return f"complete mode: every batch emits all {'windows' if windowed else 'results'}{ended}"
    if mode == "update" and windowed:
        ended = "" if not kept else f"; {f.count(kept)} ended windows stay in state"
        return f"update mode: a batch emits the windows it changed{ended}"
    if mode is None or not windowed:
        return None if mode is None else f"{mode} mode"
    return "append mode: a window is emitted once, when the watermark passes its end"


def unclosed_words(snapshot: Snapshot) -> str | None:
    """What happens to windows that the watermark does not close; None: not known, or not the same for all operators."""
    if snapshot.spark.output_mode == "complete":
        return "emitted by every batch"
    windowed = [one for one in snapshot.spark.operators or () if one.windowed]
    return "never removed" if windowed and all(one.evicts is False for one in windowed) else None
