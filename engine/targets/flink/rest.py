"""GET requests to a JobManager's REST API, directly or behind a proxy; no other method is ever used."""

import base64
import math
import os
import re
import ssl
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import urllib3
from msgspec import Struct

from ...system.errors import UsageError

TIMEOUT_S = 10.0
"""Longest wait for an answer; a busy JobManager pauses for up to 5 s."""
REQUEST_LINE = 4_096
"""Flink answers 404 to a longer request line (bytes)."""
TOKEN_VARIABLE, LOGIN_VARIABLE = "WMTOP_FLINK_TOKEN", "WMTOP_FLINK_LOGIN"
"""Environment variables with a bearer token, or `user:password` for basic authentication."""
_MAX_ERROR_LENGTH = 300
_TLS_REFUSED = re.compile("EOF occurred|CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE")
"""How servers end the handshake of a client without a certificate."""
_T = TypeVar("_T")


class Metric(Struct):
    """A metric's id, its value if values were requested, and its sum over the subtasks of a vertex if sums were."""

    id: str
    value: str | None = None
    sum: float | None = None


class Errors(Struct):
    """The answer in case of an error: stack traces."""

    errors: list[str] = []


class RestError(Exception):
    """The JobManager gave no answer: one line says why; `status` is None without an HTTP answer."""

    def __init__(self, text: str, status: int | None = None) -> None:
        # A proxy's redirect may contain control characters that a terminal would obey.
        super().__init__("".join(char if char.isprintable() else "\ufffd" for char in text))
        self.status = status


class RestSecurity(Struct, frozen=True):
    """Credentials and trusted authorities; secrets are in files or environment variables, never in arguments."""

    ca_file: Path | None = None
    """Certificate authorities as PEM, instead of the system's."""
    client_certificate: Path | None = None
    """A client certificate with its key, as PEM."""
    auth_file: Path | None = None
    """A file with a bearer token, or with `user:password` for basic authentication."""


class Rest:
    """The JobManager at a base URL; `path_prefix` and port of the URL are kept, so a proxy's URL works."""

    def __init__(self, url: str, security: RestSecurity) -> None:
        """UsageError for a URL or a security file that cannot be used."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url} is not a JobManager's address; give flink://HOST:PORT or https://HOST/PREFIX")
        if parts.username or parts.password:
            raise UsageError(f"a password in a URL shows in process lists; set {LOGIN_VARIABLE}=user:password instead")
        self.base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._has_client_certificate = security.client_certificate is not None
        self._headers = {"Accept": "application/json", **_authorization(security, os.environ)}
        self._pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=2,
            retries=False,
            timeout=urllib3.Timeout(TIMEOUT_S),
            ssl_context=_context(security) if parts.scheme == "https" else None,
        )

    def get(self, path: str, kind: type[_T]) -> _T:
        """The answer at `path` (`/jobs/overview`) as a `kind`; RestError if there is no answer."""
        try:
            # A redirect is never followed: it could carry our credentials to another host.
            answer = self._pool.request("GET", self.base + path, headers=self._headers, redirect=False)
        except urllib3.exceptions.HTTPError as error:
            raise RestError(f"no answer from {self.base}: {self._with_hint(_reason(error))}") from None
        if answer.status in (301, 302, 303, 307, 308):
            where = answer.headers.get("Location", "another address").removesuffix(path)
            raise RestError(f"{self.base} redirects to {where}: give that address", answer.status)
        if answer.status in (401, 403):
            raise RestError(
                f"{self.base} refuses access (HTTP {answer.status}): set {TOKEN_VARIABLE} or {LOGIN_VARIABLE}",
                answer.status,
            )
        if answer.status != 200:
            raise RestError(_error_of(answer.data) or f"{self.base}{path}: HTTP {answer.status}", answer.status)
        try:
            return msgspec.json.decode(answer.data, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            text = f"{self.base}{path} does not answer as Flink's REST API does: {error}"
            raise RestError(text, answer.status) from None

    def metrics(self, path: str, ids: Sequence[str]) -> dict[str, str]:
        """The values of metrics by id, in as many requests as the request line's length needs; unknown ids are left
        out.
        """
        values: dict[str, str] = {}
        for batch in batches(ids, REQUEST_LINE - len(self.base) - len(path) - 64):
            for metric in self.get(f"{path}?get={batch}", list[Metric]):
                if metric.value is not None:
                    values[metric.id] = metric.value
        return values

    def sums(self, path: str, ids: Sequence[str]) -> dict[str, float]:
        """Sums over the subtasks of a vertex (`path`: `/jobs/J/vertices/V`), computed by the JobManager."""
        sums: dict[str, float] = {}
        for batch in batches(ids, REQUEST_LINE - len(self.base) - len(path) - 96):
            for metric in self.get(f"{path}/subtasks/metrics?agg=sum&get={batch}", list[Metric]):
                if metric.sum is not None and math.isfinite(metric.sum):
                    sums[metric.id] = metric.sum
        return sums

    def _with_hint(self, reason: str) -> str:
        """The reason of a failed connection, and the option that may help."""
        if "CERTIFICATE_VERIFY_FAILED" in reason:
            return f"{reason}: give the authority that signed it with --ca-file"
        if "WRONG_VERSION_NUMBER" in reason:
            return f"{reason}: this port does not use TLS, give http://"
        if self.base.startswith("https") and not self._has_client_certificate and _TLS_REFUSED.search(reason):
            return f"{reason}: it may require a client certificate (--client-cert)"
        return reason

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()


def batches(ids: Sequence[str], longest: int) -> list[str]:
    """The ids, percent-encoded and joined by commas, in pieces of at most `longest` bytes each."""
    out: list[str] = []
    for encoded in (quote(id, safe="") for id in ids):
        if out and len(out[-1]) + 1 + len(encoded) <= longest:
            out[-1] += f",{encoded}"
        else:
            out.append(encoded)
    return out


def _authorization(security: RestSecurity, environment: Mapping[str, str]) -> dict[str, str]:
    secret = None
    if security.auth_file is not None:
        try:
            secret = security.auth_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--auth-file {security.auth_file}: {_reason(error)}") from None
    login = environment.get(LOGIN_VARIABLE) if secret is None else (secret if ":" in secret else None)
    token = environment.get(TOKEN_VARIABLE) if secret is None else (None if login else secret)
    if token:
        return {"Authorization": f"Bearer {token}"}
    if not login:
        return {}
    return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}


def _context(security: RestSecurity) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.client_certificate is not None:
            context.load_cert_chain(security.client_certificate)
    except (OSError, ssl.SSLError) as error:
        named = security.client_certificate or security.ca_file
        raise UsageError(f"cannot use the certificate file {named}: {_reason(error)}; give a PEM file") from None
    return context


def cause_in(stack_trace: str) -> str | None:
    """The innermost cause in a stack trace, in one line."""
    lines = stack_trace.splitlines()
    causes = [line.partition(":")[2] for line in lines if line.startswith("Caused by:")]
    return (causes[-1] if causes else lines[0]).strip() or None if lines else None


def _error_of(data: bytes) -> str | None:
    """The cause of Flink's error, without its stack trace."""
    try:
        texts = [text.strip() for text in msgspec.json.decode(data, type=Errors).errors if text.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    cause = cause_in(texts[-1]) if texts else None
    return None if cause is None else cause[:_MAX_ERROR_LENGTH]


def _inner(error: BaseException) -> BaseException | None:
    """What caused an error: urllib3 also gives it as the last argument."""
    for inner in (getattr(error, "reason", None), error.__cause__, *error.args[-1:]):
        if isinstance(inner, BaseException):
            return inner
    return None


def _reason(error: BaseException) -> str:
    """The innermost reason of a network or file error, in one line."""
    chain = [error]
    while (inner := _inner(chain[-1])) is not None:
        chain.append(inner)
    for cause in reversed(chain):
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return (str(chain[-1]).splitlines() or [type(chain[-1]).__name__])[0][:_MAX_ERROR_LENGTH]
