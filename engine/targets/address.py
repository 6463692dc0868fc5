"""Addresses of targets: paths and URIs as Spark writes them, and names derived from them."""

import os
import re
from pathlib import Path

from ..system.errors import UsageError, one_line

_NAMELESS = re.compile(
    r"[_.]?(checkpoints?|checkpoint[_-]?(dir|location)|ckpts?|chk(pt)?s?|ck|cp)([_-]?\d+)?|", re.IGNORECASE
)
"""Directory names that do not identify a query."""
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_LOCAL = ("file", "dbfs")


def scheme_of(address: str) -> str | None:
    """The scheme of a URI of a store, of another machine's file system or of a plug-in; None: a local address."""
    uri = _URI.match(address)
    return None if uri is None or uri[1].lower() in _LOCAL else uri[1].lower()


def is_remote(address: str) -> bool:
    """Whether the address is a URI of a store or of another machine's file system."""
    return scheme_of(address) is not None


def without_scheme(address: str) -> str:
    """The part of a URI after its scheme."""
    return _URI.sub("", address)


def local_path(address: str) -> Path:
    """The path of the address, also from a URI in Spark's form (`file:/data/ckpt`).

    UsageError if this user may not read there.
    """
    uri = _URI.match(address)
    path = address if uri is None else re.sub("^(?://[^/]*)?/+", "/", address[len(uri[1]) + 1 :])
    if uri is not None and uri[1].lower() == "dbfs":
        path = f"/dbfs/{path.lstrip('/')}"  # where Databricks mounts it
        if not os.path.exists("/dbfs"):
            raise UsageError(
                f"{one_line(address)} is not mounted here: run wmtop on the cluster's driver, or copy it here"
            )
    try:
        os.stat(path)
        if os.path.isdir(path):
            os.scandir(path).close()
    except PermissionError as error:
        raise UsageError(f"cannot read {one_line(path)}: {error.strerror}") from None
    except (OSError, ValueError):
        pass  # it does not exist: the caller reports that, with similar names
    return Path(path)


def known_as(path: Path) -> str:
    """The name for a checkpoint: for a directory named just `ckpt` or `_checkpoint`, that of its parent."""
    whole = path.absolute()
    return next((each.name for each in (whole, *whole.parents) if not _NAMELESS.fullmatch(each.name)), whole.name)


def name_of(text: str) -> str:
    """An engine name derived from a file or directory name."""
    kept = "".join(character if character.isascii() and character.isalnum() else "-" for character in text)
    return kept.strip("-")[:40] or "run"
