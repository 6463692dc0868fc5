"""Places by a path or a URI: which of them are on this machine."""

import re
from pathlib import Path

from .errors import UsageError

URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(?=/)")
_LOCAL = ("file", "dbfs")
HERE_ONLY = "only on this machine"


def scheme_of(address: str) -> str | None:
    """The scheme of a URI of a store, of another machine's file system or of a plug-in; None: a local address."""
    uri = URI.match(address)
    return None if uri is None or uri[1].lower() in _LOCAL else uri[1].lower()


def path_here(text: str, supported: str = HERE_ONLY) -> Path:
    """A path on this machine, also from its `file:` URI; ValueError for the URI of a store or of another machine.

    As a path `s3://bucket/orders` would be the directory `s3:` here. `supported`: where such a place may be.
    """
    if scheme_of(text) is not None:
        raise ValueError(f"'{text}' is a URI, and this is supported {supported}; give a path")
    return Path(re.sub("^file:(//[^/]*)?(?=/)", "", text))


def variable_path(variable: str, text: str) -> Path:
    """The path on this machine that an environment variable has, or an option that is not parsed; UsageError."""
    try:
        return path_here(text)
    except ValueError as error:
        raise UsageError(f"{variable}: {error}", code="uri") from None
