"""The short form of `make torture PART=d`."""

from pathlib import Path

from .rounds import short
from .servers import Torture


def test_no_command_takes_a_bad_server_for_a_good_one(tmp_path: Path) -> None:
    torture = Torture(tmp_path)
    try:
        assert short(torture, 7, 3)["rounds"] == 3
    finally:
        torture.close()
