"""Errors that a user sees, one line that says what happened and what to do; and how a process ended, in words.

No text of an error, also of another library's, shows a secret: all of them pass `without_secrets`.
"""

import json
import os
import re
import signal
from base64 import b64encode
from collections.abc import Sequence
from importlib.util import find_spec
from urllib.parse import quote

_EXTRAS = {
    "run": ("Spark", ("pyspark", "pyarrow", "numpy")),
    "serve": ("textual-serve", ("textual_serve", "aiohttp")),
    "s3": ("PyArrow", ("pyarrow",)),
}
"""The extras of the package: what each is called, and what it brings."""
_LINE_LIMIT = 200
_MAX_LISTED = 20
_SECRET_VARIABLE = re.compile("PASSWORD|SECRET|TOKEN|LOGIN|JAAS|PRIVATE|SSL_KEY|KEYSTORE_KEY")
"""The names of environment variables that hold a secret, also those that `KafkaConfig` makes."""
_LONG_SECRET = 8
"""A secret that is shorter is a word that a message may have inside another one."""
LOGIN_IN_ADDRESS = re.compile(r":/{1,2}(?![^\s@/]*:\d+/)[^\s@/]*:[^\s@]*@")
"""`://user:password@`, also with one slash, and not `://host:port/name@home`."""
_kept: set[str] = set()


def keep_secret(*secrets: str) -> None:
    """From now on no error shows these; those in environment variables are known."""
    _kept.update(secrets)


def without_secrets(text: str) -> str:
    """`text` with `***` for each secret in force, also in JSON, base64 or a URL."""
    text = LOGIN_IN_ADDRESS.sub("://***@", text)
    named = {value for name, value in os.environ.items() if _SECRET_VARIABLE.search(name.upper())}
    known = {part for secret in _kept | named for part in (secret, secret.strip(), secret.partition(":")[2]) if part}
    for secret in sorted(known, key=len, reverse=True):
        data = secret.encode(errors="surrogatepass")
        for form in (
            secret,
            json.dumps(secret)[1:-1],
            repr(secret)[1:-1],
            quote(data, safe=""),
            b64encode(data).decode(),
        ):
            edges = ("", "") if len(form) >= _LONG_SECRET else (r"(?<!\w)", r"(?!\w)")
            text = re.sub(re.escape(form).join(edges), "***", text)
    return text


class _OneLineError(Exception):
    """`text` is the line, shown without secrets and control characters; `code` identifies it within its type."""

    def __init__(self, text: str, *, code: str = "") -> None:
        super().__init__(printable(without_secrets(text)))
        self.code = code


class UsageError(_OneLineError):
    """Unusable input or options: the command prints the line and exits with 2."""


class RunError(_OneLineError):
    """The run failed: the command prints the line and exits with 1."""


def require(extra: str, what: str) -> None:
    """UsageError, with the line that installs it, if something that `extra` brings and `what` needs is missing."""
    name, modules = _EXTRAS[extra]
    try:
        missing = any(find_spec(module) is None for module in modules)
    except ImportError:
        missing = True
    if missing:
        from .installation import install_command

        raise UsageError(f"{what} needs {name}: {install_command(extra)}", code="missing_extra")


def first_line(error: BaseException | str) -> str:
    """The first line of an error or text that is not blank; for an error without text, its type's name."""
    line = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return without_secrets(line) if line or isinstance(error, str) else type(error).__name__


def unexpected(error: BaseException) -> str:
    """One line about an error that no code foresees."""
    return f"unexpected {type(error).__name__}: {first_line(error)}"


def printable(text: str) -> str:
    """`text` with U+FFFD for each character that a terminal would obey: line breaks, escapes, lone surrogates."""
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def one_line(text: str, limit: int = _LINE_LIMIT) -> str:
    """`text` on one line, without control characters that a terminal would obey, at most `limit` characters."""
    shown = "".join(character if character.isprintable() else " " for character in text[: 4 * limit])
    line = without_secrets(" ".join(shown.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def enumerated(names: Sequence[str]) -> str:
    """`a, b and 12 more`, or `none`."""
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(names[:_MAX_LISTED]) + more or "none"


def how_it_ended(code: int) -> str:
    """`exit code 3`, or for a process ended by a signal (a negative code): `killed (SIGKILL; out of memory?)`."""
    if code >= 0:
        return f"exit code {code}"
    return f"killed ({signal_name(-code)}{'; out of memory?' * (-code == signal.SIGKILL)})"


def signal_name(number: int) -> str:
    """The name of a signal: `SIGTERM`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
