"""Commands in this process."""

import sys

import pytest
from wmtop.tui import cli


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout, stderr of `wmtop …`."""
    code = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["wmtop", *map(str, arguments)])
        try:
            cli.main()
        except SystemExit as over:
            code = int(over.code or 0)
    out, err = capsys.readouterr()
    return code, out, err
