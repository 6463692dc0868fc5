"""Options that would cost without bound, or mean nothing, are refused before anything starts."""

import pytest
from wmtop.engine.system.errors import UsageError
from wmtop.engine.watermarks.settings import MAX_WINDOWS_PER_RECORD, Sliding
from wmtop.tui.cli.options import EngineArguments

from ...refusals import refused
from .commands import run


def test_a_record_is_in_a_bounded_number_of_windows() -> None:
    slide_ms = 3_600_000 // MAX_WINDOWS_PER_RECORD
    assert EngineArguments(window=3_600_000, slide=slide_ms).window_spec == Sliding(3_600_000, slide_ms)
    for short_ms in (1, slide_ms - 1):
        with refused(UsageError, "", "--slide", f"{slide_ms}ms"):
            _ = EngineArguments(window=3_600_000, slide=short_ms).window_spec


@pytest.mark.parametrize("option", ["--max-channels", "--subtasks", "--smooth", "--idle-after"])
def test_a_bound_of_nothing_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(
        capsys, "run", "rate", "--strategy", "smoothed", option, "0s" if option == "--idle-after" else 0
    )
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert option.split()[0] in err
