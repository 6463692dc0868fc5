"""Targets by their configured name: replaces the name by the target's address and options."""

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ....engine.feed import run_directory
from .force import configured


def with_configured_target(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command with a `target` accept a configured name; options of the command line win.

    A run that the command starts for it gets the target's name, if that is free.
    """
    known = inspect.signature(command).parameters

    @functools.wraps(command)
    def run(**values: Any) -> None:
        target = values.get("target")
        found = None if target is None else configured(target)
        if found is not None:
            values["target"] = found.attach
            for option, value in found.options().items():
                if option in known and values.get(option) is None:
                    values[option] = value
            if (
                "name" in known
                and values["name"] is None
                and found.name not in {run.name for run in run_directory.list_runs()}
            ):
                values["name"] = found.name
        command(**values)

    return run
