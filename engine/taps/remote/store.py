"""A directory in an object store or another file system, through pyarrow.fs: few requests, errors of one line.

Credentials, regions and proxies come from the environment of each cloud's own tools. Azure takes
AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, else its default chain. S3 takes its endpoint from
AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or from the URI: `s3://bucket/ckpt?endpoint_override=http://minio:9000`.
"""

import errno
import os
import re
from datetime import datetime, timedelta
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from pyarrow import fs

from ...errors import UsageError
from ..files import UnreadableError, one_line

S3 = ("s3", "s3a", "s3n")
BUILT_IN = (*S3, "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
CONNECT_S, REQUEST_S, ATTEMPTS = 5, 10, 3
_NO_SUCH_FILE = os.strerror(errno.ENOENT)
_S3_OPTIONS = ("endpoint_override", "region", "force_virtual_addressing", "anonymous")
_AWS_ERROR = re.compile(r"AWS Error (?:\[code \d+\]|([A-Z_]+))")
_HTTP_STATUS = re.compile(r"\(HTTP status (\d+)\)")
_DETAIL = re.compile(r"\[code \d+\][^:]*: *(.*)|operation: *(.*)", re.DOTALL)


class RemoteError(UnreadableError):
    """The store does not answer, or refuses; one line has the reason."""


class Entry(NamedTuple):
    """An entry of a directory, and when it was written (epoch ms; None: the store does not report it)."""

    name: str
    is_dir: bool
    size: int
    written_ms: int | None


class Content(NamedTuple):
    """A file and when it was written (epoch ms; None: the store does not report it)."""

    data: bytes
    written_ms: int | None


class Store:
    """Everything below one URI; `requests` and `bytes_read` count the traffic."""

    def __init__(self, uri: str) -> None:
        self.uri = _without_secrets(uri)
        self._fs, self._root = _file_system(uri)
        self.requests = 0
        self.bytes_read = 0

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self._root.rstrip("/").rpartition("/")[2]

    def entries(self, below: str = "") -> list[Entry] | None:
        """The entries of a directory; None: there is no such directory. RemoteError."""
        self.requests += 1
        try:
            found = self._fs.get_file_info(fs.FileSelector(self._path(below)))
        except FileNotFoundError:
            return None
        except NotADirectoryError:
            return None
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            if _NO_SUCH_FILE in str(error):  # Google's store raises an OSError without a number
                return None
            raise RemoteError(self._reason(error)) from None
        return [Entry(one.base_name, one.type == fs.FileType.Directory, one.size or 0, _ms(one.mtime)) for one in found]

    def is_file(self) -> bool:
        """Whether the URI itself is a file. RemoteError."""
        self.requests += 1
        try:
            return self._fs.get_file_info(self._root).type == fs.FileType.File
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            raise RemoteError(self._reason(error)) from None

    def read(self, below: str, start: int = 0) -> Content | None:
        """A file from an offset (bytes) on; None: it does not exist. RemoteError."""
        self.requests += 1
        try:
            with self._open(below, start) as file:
                self.requests += 1
                data: bytes = file.read()
                written = _written_ms(file.metadata())
        except FileNotFoundError:
            return None
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            raise RemoteError(self._reason(error)) from None
        self.bytes_read += len(data)
        return Content(data, written)

    def written_ms(self, below: str) -> int | None:
        """When a file was written (epoch ms); None: not known."""
        self.requests += 1
        try:
            return _ms(self._fs.get_file_info(self._path(below)).mtime)
        except Exception as error:  # noqa: BLE001 - each store raises what its library does
            raise RemoteError(self._reason(error)) from None

    def _open(self, below: str, start: int) -> Any:
        if not start:
            return self._fs.open_input_stream(self._path(below), compression=None)
        file = self._fs.open_input_file(self._path(below))
        file.seek(start)
        return file

    def _path(self, below: str) -> str:
        return f"{self._root}/{below}" if below else self._root

    def _reason(self, error: Exception) -> str:
        return f"{one_line(self.uri)}: {_words(error)}"


def _file_system(uri: str) -> tuple[Any, str]:
    """The file system of a URI and the path in it; UsageError for one that cannot be used."""
    scheme = uri.partition(":")[0].lower()
    key, sas = _variable("AZURE_STORAGE_KEY"), _variable("AZURE_STORAGE_SAS_TOKEN")
    try:
        if scheme in S3:
            return _s3(uri)
        if scheme in ("gs", "gcs"):
            parts = urlsplit(uri)
            anonymous = parts.username == "anonymous"
            google = fs.GcsFileSystem(anonymous=anonymous, retry_time_limit=timedelta(seconds=REQUEST_S))
            return google, f"{parts.hostname}{parts.path}".rstrip("/")
        if scheme in ("abfs", "abfss") and (key or sas):
            return _azure(uri, key, sas)
        if scheme in BUILT_IN:
            found, path = fs.FileSystem.from_uri(uri)
            return found, path.rstrip("/")
    except UsageError:
        raise
    except Exception as error:  # noqa: BLE001 - each store raises what its library does
        raise UsageError(f"{one_line(_without_secrets(uri))}: {_words(error)}") from None
    return _fsspec(uri, scheme)


def _s3(uri: str) -> tuple[Any, str]:
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query))
    unknown = next((name for name in options if name not in _S3_OPTIONS), None)
    if unknown is not None:
        raise UsageError(
            f"{one_line(_without_secrets(uri))}: unknown option '{one_line(unknown)}'; known: {', '.join(_S3_OPTIONS)}"
        )
    bucket = parts.netloc.rpartition("@")[2]
    if not bucket:
        raise UsageError(f"{one_line(uri)} names no bucket, e.g. s3://bucket/checkpoints/orders")
    if "@" in parts.netloc:
        raise UsageError(
            "credentials do not belong into a URI; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
        )
    endpoint = options.get("endpoint_override") or _variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
    region = options.get("region") or _variable("AWS_REGION", "AWS_DEFAULT_REGION")
    if region is None and endpoint is None:
        region = fs.resolve_s3_region(bucket)
    s3 = fs.S3FileSystem(
        endpoint_override=endpoint,
        region=region,
        anonymous=options.get("anonymous") == "true",
        force_virtual_addressing=options.get("force_virtual_addressing") == "true",
        connect_timeout=CONNECT_S,
        request_timeout=REQUEST_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=ATTEMPTS),
    )
    return s3, f"{bucket}{parts.path}".rstrip("/")


def _azure(uri: str, key: str | None, sas: str | None) -> tuple[Any, str]:
    """With a storage key or a SAS token; pyarrow by itself takes only Azure's default credentials from a URI."""
    parts = urlsplit(uri)
    container, _, host = parts.netloc.rpartition("@")
    if not container:
        raise UsageError(f"{one_line(_without_secrets(uri))} names no container, e.g. abfss://container@account/orders")
    options = dict(parse_qsl(parts.query))
    more: dict[str, str] = {}
    if at := options.get("blob_storage_authority"):
        scheme = "http" if options.get("enable_tls") == "false" else "https"
        more = {"blob_storage_authority": at, "dfs_storage_authority": options.get("dfs_storage_authority", at)}
        more |= {"blob_storage_scheme": scheme, "dfs_storage_scheme": scheme}
    account = host.partition(".")[0]
    azure = fs.AzureFileSystem(account, account_key=key, sas_token=None if key else sas, **more)  # pyright: ignore[reportArgumentType]
    return azure, f"{container}{parts.path}".rstrip("/")


def _variable(*names: str) -> str | None:
    """The first of these environment variables with a value."""
    return next((value for name in names if (value := os.environ.get(name))), None)


def _fsspec(uri: str, scheme: str) -> tuple[Any, str]:
    try:
        fsspec: Any = import_module("fsspec.core")  # an extra
    except ImportError:
        raise UsageError(
            f"{one_line(uri)}: {scheme}:// needs fsspec; pip install 'wmtop[fsspec]', and the package of {scheme}"
        ) from None
    try:
        found, path = fsspec.url_to_fs(uri)
        handler: Any = fs.FSSpecHandler
        return fs.PyFileSystem(handler(found)), path.rstrip("/")
    except Exception as error:  # noqa: BLE001 - each store raises what its library does
        raise UsageError(f"{one_line(uri)}: {_words(error)}") from None


def _words(error: Exception) -> str:
    """The error in one line, without request ids."""
    text = str(error)
    if known := next((words for sign, words in _KNOWN.items() if sign in text), None):
        return known
    if match := _AWS_ERROR.search(text):
        if known := _AWS_WORDS.get(match[1] or ""):
            return known
        if (status := _HTTP_STATUS.search(text)) is not None:  # an answer to HEAD has no body with a reason
            return _AWS_WORDS["SLOW_DOWN"] if status[1] == "503" else f"the store answers with HTTP {status[1]}"
        found = _DETAIL.search(text)
        code = (match[1] or "error").lower().replace("_", " ")
        detail = one_line((found[1] or found[2] or "").split(" (Request ID")[0], 120) if found else ""
        if "InvalidAccessKeyId" in text or "SignatureDoesNotMatch" in text:
            return _AWS_WORDS["INVALID_ACCESS_KEY_ID"]
        return f"{code}: {detail}" if detail else code
    return one_line(text or type(error).__name__, 160)


_NO_HADOOP = (
    "this needs Hadoop's client (libhdfs); install Hadoop, and set HADOOP_HOME, JAVA_HOME, and CLASSPATH to what "
    "'hadoop classpath --glob' prints"
)
_KNOWN = {
    "load libjvm": _NO_HADOOP,
    "load libhdfs": _NO_HADOOP,
    "DefaultAzureCredential": "no credentials for Azure; run 'az login', or set AZURE_STORAGE_KEY, "
    "AZURE_STORAGE_SAS_TOKEN, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET",
    "OAuth2 access token": "no credentials for Google Cloud; set GOOGLE_APPLICATION_CREDENTIALS, run 'gcloud auth "
    "application-default login', or use gs://anonymous@bucket/path",
}
"""Explanations by a part of a library's message."""
_DENIED = "access denied; check the credentials (AWS_PROFILE, AWS_ACCESS_KEY_ID) and s3:GetObject, s3:ListBucket"
_AWS_WORDS = {
    "ACCESS_DENIED": _DENIED,
    "INVALID_ACCESS_KEY_ID": "the credentials are not accepted; check AWS_ACCESS_KEY_ID, AWS_SESSION_TOKEN",
    "SIGNATURE_DOES_NOT_MATCH": "the credentials are not accepted; check AWS_SECRET_ACCESS_KEY",
    "NO_SUCH_BUCKET": "there is no such bucket",
    "NETWORK_CONNECTION": "the endpoint cannot be reached, or is too slow; check AWS_ENDPOINT_URL and the network",
    "REQUEST_TIMEOUT": f"no answer within {REQUEST_S} s",
    "SERVICE_UNAVAILABLE": "the store is unavailable (503)",
    "SLOW_DOWN": "the store asks to slow down (503)",
    "THROTTLING": "the store asks to slow down (throttling)",
    "INTERNAL_FAILURE": "the store failed (500)",
}


def _without_secrets(uri: str) -> str:
    """The URI without what precedes an @ in its authority's password, and without a query."""
    return re.sub(r"//([^/@:]*):[^/@]*@", r"//\1@", uri.partition("?")[0])


def _ms(when: datetime | None) -> int | None:
    return None if when is None else int(when.timestamp() * 1_000)


def _written_ms(metadata: Any) -> int | None:
    """By the headers of a stream, where the file system has them."""
    said: Any = metadata.get("Last-Modified") if metadata else None
    if not said:
        return None
    try:
        text: str = said.decode()
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp() * 1_000)
    except ValueError:
        return None
