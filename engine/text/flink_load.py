"""Which tasks of an attached Flink job are busy or back-pressured, or send their watermark late. Pure."""

from ..snapshot import Snapshot
from ..snapshot.flink_job import FlinkVertex
from . import formatting as f

BUSY = 0.5
"""Share of its time from which a task is marked as busy or back-pressured."""
_NAME_CELLS = 28


def is_busy(task: FlinkVertex) -> bool:
    """Whether its busiest subtask is busy most of the time."""
    return (task.busy or 0) >= BUSY


def is_back_pressured(task: FlinkVertex) -> bool:
    """Whether one of its subtasks waits most of the time for downstream tasks to take its records."""
    return (task.back_pressured or 0) >= BUSY


def bottleneck(snapshot: Snapshot) -> FlinkVertex | None:
    """The busiest task directly below a back-pressured one that is not back-pressured itself."""
    tasks = snapshot.job.vertices
    waits = {task.id for task in tasks if is_back_pressured(task)}
    below = [task for task in tasks if waits.intersection(task.inputs) and task.id not in waits]
    return max((one for one in below if is_busy(one)), key=lambda one: one.busy or 0, default=None)


def busy_after(snapshot: Snapshot) -> str:
    """` by Window (busy 98 %)`; empty where no task is known to be busy."""
    task = bottleneck(snapshot)
    return "" if task is None else f" by {f.label(task.name, _NAME_CELLS)} (busy {f.share(task.busy)})"


def busiest_task(snapshot: Snapshot) -> str:
    """`: Map is busy 98 % of its time`; empty where no task is known to be busy."""
    task = max((one for one in snapshot.job.vertices if is_busy(one)), key=lambda one: one.busy or 0, default=None)
    return "" if task is None else f": {f.label(task.name, _NAME_CELLS)} is busy {f.share(task.busy)} of its time"


def kept_back(snapshot: Snapshot) -> str:
    """How far the task with the barrel's lowest input sends its watermark behind the one it receives."""
    task = next((task for task in snapshot.job.vertices if task.id == snapshot.job.held_in), None)
    if task is None or task.input_ms is None or task.output_ms is None:
        where = "its task" if task is None else f"an operator in {f.label(task.name, _NAME_CELLS)}"
        return f"{where} sends a watermark behind the one that it takes in"
    behind = f.duration(task.input_ms - task.output_ms)
    return f"{f.label(task.name, _NAME_CELLS)} sends a watermark {behind} behind what it takes in"
