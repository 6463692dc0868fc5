"""Options that would cost without bound, or mean nothing, are refused before anything starts."""

import inspect
from typing import Any

import pytest
from wmtop.engine.system.errors import UsageError
from wmtop.engine.watermarks.settings import MAX_WINDOWS_PER_RECORD, Sliding, Tumbling
from wmtop.tui.cli.options import settings_of, window_of

from ...refusals import refused


def test_a_record_is_in_a_bounded_number_of_windows() -> None:
    slide_ms = 3_600_000 // MAX_WINDOWS_PER_RECORD
    assert window_of(3_600_000, slide_ms, 0, None) == Sliding(3_600_000, slide_ms)
    for short_ms in (1, slide_ms - 1):
        with refused(UsageError, "", "--slide", f"{slide_ms}ms"):
            window_of(3_600_000, short_ms, 0, None)


@pytest.mark.parametrize(
    ("option", "value"), [("idle_after_ms", 0), ("max_channels", 0), ("subtasks", 0), ("smooth", 0)]
)
def test_a_bound_of_nothing_is_refused(option: str, value: int) -> None:
    given: dict[str, Any] = {name: None for name in inspect.signature(settings_of).parameters if name != "max_channels"}
    given |= {"strategies": [], "emit_every_ms": 200, "allowed_lateness_ms": 0, "window": Tumbling(1)}
    given |= {"strategies": ["smoothed"]} if option == "smooth" else {}
    given[option] = value
    with refused(UsageError, "", f"--{option.removesuffix('_ms').replace('_', '-')}"):
        settings_of(**given)
