"""Pure watermark semantics: integers in, facts out; no Spark, no Textual, no clock, no I/O.

What is named here is the stable surface of the core, with `wmtop.engine.verdict`; `docs/architecture.md` lists it.
Nothing is imported before one of the names is used: the start screen needs none of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .channels import IdlenessTimers
    from .generators import Generator, load_factory, new_generator
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

_MODULES = (
    "generators",
    "channels",
    "monitor",
    "multiplexer",
    "observation",
    "settings",
    "times",
    "valve",
    "whatif",
    "window_operator",
)


def __getattr__(name: str) -> Any:
    for module in _MODULES if name in __all__ else ():
        if (value := getattr(import_module(f".{module}", __name__), name, None)) is not None:
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
