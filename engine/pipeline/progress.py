"""Spark's progress reports."""

from typing import Any

from ..core.snapshot import SparkProgress


def progress_of(report: dict[str, Any] | None, watermark_ms: int | None = None) -> SparkProgress:
    """The parts of a `StreamingQueryProgress` (as its JSON) that a screen shows."""
    if not report:
        return SparkProgress(watermark_ms=watermark_ms)
    phases: dict[str, int] = {name: int(ms) for name, ms in report.get("durationMs", {}).items()}
    return SparkProgress(
        input_rows_per_second=report.get("inputRowsPerSecond"),
        processed_rows_per_second=report.get("processedRowsPerSecond"),
        batch_ms=phases.pop("triggerExecution", None),
        phases_ms=phases,
        watermark_ms=watermark_ms,
    )


def processed_per_second(report: dict[str, Any] | None, rows: dict[int, int]) -> float | None:
    """The rate of the batch of a report, given the rows of batches by their numbers; None: its rows are not known."""
    if not report or report.get("batchId") not in rows:
        return None
    took_ms = report.get("durationMs", {}).get("triggerExecution", 0)
    return rows[report["batchId"]] * 1_000 / took_ms if took_ms else None


def without_wait(report: dict[str, Any], waits_ms: dict[int, int]) -> dict[str, Any]:
    """A report without the time that its batch waited for rows, by the batches' numbers (ms)."""
    waited = waits_ms.get(report.get("batchId", -1), 0)
    took = {
        name: max(0, ms - waited) if name in ("addBatch", "triggerExecution") else ms
        for name, ms in report.get("durationMs", {}).items()
    }
    return {**report, "durationMs": took}
