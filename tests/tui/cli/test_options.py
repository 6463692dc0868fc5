"""Options that would cost without bound, or mean nothing, are refused before anything starts."""

from typing import Any

import pytest
from wmtop.engine.system.errors import UsageError
from wmtop.engine.watermarks.settings import MAX_WINDOWS_PER_RECORD, Sliding
from wmtop.tui.cli.options import EngineArguments, settings_of

from ...refusals import refused


def test_a_record_is_in_a_bounded_number_of_windows() -> None:
    slide_ms = 3_600_000 // MAX_WINDOWS_PER_RECORD
    assert EngineArguments(window=3_600_000, slide=slide_ms).window_spec == Sliding(3_600_000, slide_ms)
    for short_ms in (1, slide_ms - 1):
        with refused(UsageError, "", "--slide", f"{slide_ms}ms"):
            _ = EngineArguments(window=3_600_000, slide=short_ms).window_spec


@pytest.mark.parametrize("option", ["idle_after", "max_channels", "subtasks", "smooth"])
def test_a_bound_of_nothing_is_refused(option: str) -> None:
    given: dict[str, Any] = {"strategy": ["smoothed"] if option == "smooth" else None, option: 0}
    with refused(UsageError, "", f"--{option.replace('_', '-')}"):
        settings_of(EngineArguments(**given), live=False)
