"""The directory for the files that all processes of one run share."""

import shutil
from pathlib import Path

from ...system.errors import RunError
from ...system.files import PrivateDirectory


class SharedFiles:
    """A given directory, which stays with `keep`, or (None) a private temporary one, made when it is first used."""

    def __init__(self, given: Path | None, *, keep: bool) -> None:
        self._given = given
        self._keep = keep
        self._temporary: PrivateDirectory | None = None

    @property
    def path(self) -> Path:
        """Where it is; RunError if no temporary one can be made."""
        if self._given is not None:
            return self._given
        if self._temporary is None:
            try:
                self._temporary = PrivateDirectory("wmtop-staged-")
            except OSError as error:
                raise RunError(
                    f"cannot make a directory for the files of the run ({error.strerror or error}); give another place "
                    "with --state-dir or TMPDIR"
                ) from None
        return self._temporary.path

    def remove(self) -> None:
        """Remove it, unless it stays."""
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None
        if self._given is not None and not self._keep:
            shutil.rmtree(self._given, ignore_errors=True)
