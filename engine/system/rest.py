"""GET requests to a server's HTTP API, directly or behind a proxy; no other method is ever used.

Nothing that a server sends is trusted: redirects are refused, answers have a bound in bytes and in seconds, their type
is checked, and every failure is one line.
"""

import base64
import io
import re
import socket
import ssl
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from http.client import HTTPException, HTTPResponse
from itertools import islice
from os import environ
from pathlib import Path
from typing import IO, Any, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
import urllib3
from msgspec import Struct
from urllib3.connection import HTTPConnection, HTTPSConnection

from .errors import UsageError, keep_secret, printable
from .files import read_small

TIMEOUT_S = 10.0
"""Longest wait for the next bytes of an answer; a busy JVM pauses for up to 5 s."""
ANSWER_S = 30.0
"""Longest time for a whole answer of JSON or HTML."""
ANSWER_LIMIT = 32 * 1024 * 1024
"""Longest answer (bytes) of JSON or HTML."""
JSON = "application/json"
_PIECE = 64 * 1024
_ERROR_PIECES = 16
"""Pieces of an error's body that are read."""
_MAX_ERROR_LENGTH = 300
_TLS_REFUSED = re.compile("EOF occurred|CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE")
"""How servers end the handshake of a client without a certificate."""
_LONG_NUMBER = re.compile(rb"[0-9]{20}")
_STRING_OR_LONG_NUMBER = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|([0-9]{20})', re.DOTALL)
_UNTIL: ContextVar[float] = ContextVar("until", default=float("inf"))
"""When the answer that is read must be complete (monotonic s)."""
_T = TypeVar("_T")


class RestError(Exception):
    """No usable answer: one line says why; `status` is None without an HTTP answer, `is_slow`: not given in time."""

    def __init__(self, text: str, status: int | None = None, *, is_slow: bool = False) -> None:
        # A proxy's redirect may contain control characters that a terminal would obey.
        super().__init__(printable(text))
        self.status, self.is_slow = status, is_slow


class RestSecurity(Struct, frozen=True):
    """Credentials and trusted authorities; secrets are in files or environment variables, never in arguments."""

    ca_file: Path | None = None
    """Certificate authorities as PEM, instead of the system's."""
    client_certificate: Path | None = None
    """A client certificate with its key, as PEM."""
    auth_file: Path | None = None
    """A file with a bearer token, or with `user:password` for basic authentication."""


class Service(Struct, frozen=True):
    """A kind of server, in the words of its errors."""

    api: str
    """`Flink's REST API`."""
    address: str
    """What an address must be: `a JobManager's address; give flink://HOST:PORT`."""
    token_variable: str
    """The environment variable with a bearer token."""
    login_variable: str
    """The environment variable with `user:password` for basic authentication."""
    error_in: Callable[[bytes], str | None] = lambda data: None
    """The cause in the body of an error."""


class Rest:
    """The server at a base URL; `path_prefix` and port of the URL are kept, so a proxy's URL works."""

    def __init__(self, url: str, security: RestSecurity, service: Service) -> None:
        """UsageError for a URL or a security file that cannot be used."""
        try:
            parts = urlsplit(url)
            is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:  # a port or an IPv6 address that is none
            raise UsageError(f"{RestError(url[:_MAX_ERROR_LENGTH])} is not {service.address}") from None
        if parts.username or parts.password:
            raise UsageError(
                f"a password in a URL shows in process lists; set {service.login_variable}=user:password instead"
            )
        if not is_usable:
            raise UsageError(f"{RestError(url[:_MAX_ERROR_LENGTH])} is not {service.address}")
        self.base = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"
        self._service = service
        self._has_client_certificate = security.client_certificate is not None
        self._headers = {"Accept-Encoding": "identity", **_authorization(security, service, environ)}
        self._pool = urllib3.PoolManager(
            num_pools=1,
            maxsize=2,
            retries=False,
            timeout=urllib3.Timeout(TIMEOUT_S),
            ssl_context=_context(security) if parts.scheme == "https" else None,
        )
        pools: dict[str, type[urllib3.HTTPConnectionPool]] = {"http": _Pool, "https": _SecurePool}
        self._pool.pool_classes_by_scheme = pools

    def get(self, path: str, kind: type[_T], content_type: str = JSON) -> _T:
        """The JSON at `path` (`/jobs/overview`) as a `kind`; RestError if there is no such answer."""
        data = self.read(path, content_type)
        try:
            if _LONG_NUMBER.search(data) and any(found[1] for found in _STRING_OR_LONG_NUMBER.finditer(data)):
                raise msgspec.DecodeError("it has a number of 20 digits or more")
            return msgspec.json.decode(data, type=kind)
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError) as error:
            raise RestError(f"{self._not_ours(path)}: {_reason(error)}", 200) from None

    def read(self, path: str, content_type: str) -> bytes:
        """The body of the answer at `path`, of at most `ANSWER_LIMIT` bytes; RestError unless it is of that type."""
        body = io.BytesIO()
        self.save(path, content_type, body, ANSWER_LIMIT, ANSWER_S)
        return body.getvalue()

    def save(self, path: str, content_type: str, out: IO[bytes], limit: int, within_s: float) -> None:
        """Write the body of the answer at `path` to `out`.

        RestError unless it has that type, at most `limit` bytes, and is complete within `within_s` seconds.
        """
        with self._answer(path, content_type, within_s) as answer:
            sent = 0
            for piece in _pieces(answer):
                sent += len(piece)
                if sent > limit:
                    raise RestError(f"{self.base}{path} sends more than {limit >> 20} MB: this is not read", 200)
                out.write(piece)

    @contextmanager
    def _answer(self, path: str, content_type: str, within_s: float) -> Generator[urllib3.HTTPResponse]:
        """The answer to a GET with its body still to be read; the connection is kept only if all of it was."""
        answer: urllib3.HTTPResponse | None = None
        until = time.monotonic() + within_s
        try:
            _UNTIL.set(until)
            # A redirect is never followed: it could carry our credentials to another host.
            answer = cast(
                urllib3.HTTPResponse,
                self._pool.request(
                    "GET", self.base + path, headers={"Accept": content_type, **self._headers},
                    redirect=False, preload_content=False,
                ),
            )  # fmt: skip
            self._refuse(answer, path, content_type)
            yield answer
            answer.release_conn()
        except (urllib3.exceptions.HTTPError, HTTPException) as error:
            if time.monotonic() >= until:
                raise RestError(f"{self.base}{path} is not complete after {within_s:g}s: this is not read") from None
            text = f"no answer from {self.base}: {self._with_hint(_reason(error))}"
            raise RestError(text, is_slow=isinstance(error, urllib3.exceptions.ReadTimeoutError)) from None
        finally:
            if answer is not None:
                answer.close()

    def _refuse(self, answer: urllib3.HTTPResponse, path: str, content_type: str) -> None:
        """RestError for an answer that is not what was asked for."""
        status, variables = answer.status, f"{self._service.token_variable} or {self._service.login_variable}"
        if status in (301, 302, 303, 307, 308):
            where = answer.headers.get("Location", "another address").removesuffix(path)[:_MAX_ERROR_LENGTH]
            raise RestError(f"{self.base} redirects to {where}: give that address", status)
        if status in (401, 403):
            raise RestError(f"{self.base} refuses access (HTTP {status}): set {variables}", status)
        sent_type = answer.headers.get("Content-Type", content_type).partition(";")[0].strip().lower()
        if status != 200 or sent_type != content_type:
            cause = self._service.error_in(b"".join(islice(_pieces(answer), _ERROR_PIECES)))
            if status != 200:
                raise RestError(cause or f"{self.base}{path}: HTTP {status}", status)
            sends = f"it sends {sent_type[:60]}, not {content_type}"
            raise RestError(f"{self._not_ours(path)}: {cause or sends}", status)
        if answer.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise RestError(f"{self._not_ours(path)}: its answer is compressed although that was not asked for", status)

    def _not_ours(self, path: str) -> str:
        return f"{self.base}{path} does not answer as {self._service.api} does"

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


def _pieces(answer: urllib3.HTTPResponse) -> Iterator[bytes]:
    """The body as it comes: each piece is at most one read of the socket, so that a deadline is noticed."""
    while piece := answer.read1(_PIECE, decode_content=False):
        yield piece


class _Socket(io.RawIOBase):
    """What a server sends; TimeoutError where that takes until `_UNTIL`, also for headers and bodies that drip."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._file = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left_s = _UNTIL.get() - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._sock.settimeout(min(left_s, TIMEOUT_S))
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Response(HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp.close()
        self.fp = io.BufferedReader(_Socket(sock), _PIECE)


class _Pool(urllib3.HTTPConnectionPool):
    class ConnectionCls(HTTPConnection):  # type: ignore[assignment]
        response_class = _Response


class _SecurePool(urllib3.HTTPSConnectionPool):
    class ConnectionCls(HTTPSConnection):  # type: ignore[assignment]
        response_class = _Response


def _authorization(security: RestSecurity, service: Service, environment: Mapping[str, str]) -> dict[str, str]:
    secret, place = None, f"--auth-file {security.auth_file}"
    if security.auth_file is not None:
        try:
            secret = read_small(security.auth_file).decode().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"{place}: {_reason(error)}") from None
        token, login = (None, secret) if ":" in secret else (secret, None)
    else:
        token, login = (environment.get(name, "").strip() for name in (service.token_variable, service.login_variable))
        place = service.token_variable if token else service.login_variable
    keep_secret(*filter(None, (token, login)))
    if not (token or login or "").isprintable():
        raise UsageError(f"{place} has a line break or a control character inside; give one line")
    if token:
        if not token.isascii():
            raise UsageError(f"{place} has a character that no token has; give it in ASCII")
        return {"Authorization": f"Bearer {token}"}
    if not login:
        return {}
    try:
        return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    except UnicodeEncodeError:
        raise UsageError(f"{place} is not UTF-8") from None


def _context(security: RestSecurity) -> ssl.SSLContext:
    try:
        for file in filter(None, (security.ca_file, security.client_certificate)):
            read_small(file)
        context = ssl.create_default_context(cafile=security.ca_file)
        if security.client_certificate is not None:
            context.load_cert_chain(security.client_certificate, password="")  # else OpenSSL asks for it
    except (OSError, ssl.SSLError) as error:
        named = security.client_certificate or security.ca_file
        raise UsageError(f"cannot use the certificate file {named}: {_reason(error)}; give a PEM file") from None
    return context


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
