"""Pure watermark semantics: integers in, facts out; no Spark, no Textual, no clock, no I/O.

What is named here is the stable surface of the core, with `wmtop.engine.verdict`; `docs/architecture.md` lists it.
A module is imported when one of its names is first used: the start screen needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .generators import Generator, load_factory, new_generator
    from .idleness import IdlenessTimers
    from .monitor import Monitor, decode_monitor, encode_monitor, new_monitor
    from .multiplexer import Multiplexer, WatermarkOutput
    from .observation import BatchObservation, Group, Offender, Sequence
    from .settings import Session, Settings, SettingsChange, Sliding, Tumbling
    from .times import MAX, MIN, saturate
    from .valve import Status, Valve, ValveOutput
    from .whatif import Clocks
    from .window_operator import Firing, WindowOperator, new_window_operator

__all__ = [
    "MAX",
    "MIN",
    "BatchObservation",
    "Clocks",
    "Firing",
    "Generator",
    "Group",
    "IdlenessTimers",
    "Monitor",
    "Multiplexer",
    "Offender",
    "Sequence",
    "Session",
    "Settings",
    "SettingsChange",
    "Sliding",
    "Status",
    "Tumbling",
    "Valve",
    "ValveOutput",
    "WatermarkOutput",
    "WindowOperator",
    "decode_monitor",
    "encode_monitor",
    "load_factory",
    "new_generator",
    "new_monitor",
    "new_window_operator",
    "saturate",
]

_MODULES = {
    "generators": ("Generator", "load_factory", "new_generator"),
    "idleness": ("IdlenessTimers",),
    "monitor": ("Monitor", "decode_monitor", "encode_monitor", "new_monitor"),
    "multiplexer": ("Multiplexer", "WatermarkOutput"),
    "observation": ("BatchObservation", "Group", "Offender", "Sequence"),
    "settings": ("Session", "Settings", "SettingsChange", "Sliding", "Tumbling"),
    "times": ("MAX", "MIN", "saturate"),
    "valve": ("Status", "Valve", "ValveOutput"),
    "whatif": ("Clocks",),
    "window_operator": ("Firing", "WindowOperator", "new_window_operator"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(f".{module}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
