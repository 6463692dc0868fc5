"""File systems of object stores and of other machines, by the URI of what lies in them, through pyarrow.fs.

Credentials, regions and proxies come from the environment of each cloud's own tools. Azure takes
AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, else its default chain. S3 takes its endpoint from
AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, or from the URI: `s3://bucket/path?endpoint_override=http://minio:9000`.
"""

import atexit
import errno
import os
import re
from datetime import timedelta
from importlib import import_module
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from pyarrow import fs

from .errors import UsageError, one_line
from .installation import install_command

S3 = ("s3", "s3a", "s3n")
BUILT_IN = (*S3, "gs", "gcs", "abfs", "abfss", "hdfs", "viewfs")
CONNECT_S, REQUEST_S, ATTEMPTS = 5, 10, 3
_NO_SUCH_FILE = os.strerror(errno.ENOENT)
_AWS_VARIABLES = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
_S3_OPTIONS = ("endpoint_override", "region", "force_virtual_addressing", "anonymous")
_AWS_ERROR = re.compile(r"AWS Error (?:\[code \d+\]|([A-Z_]+))")
_HTTP_STATUS = re.compile(r"\(HTTP status (\d+)\)")
_DETAIL = re.compile(r"\[code \d+\][^:]*: *(.*)|operation: *(.*)", re.DOTALL)
_IN_TEXT = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://[^\s'\"]+")
_PARTS = re.compile(r"([^:/?]+:(?://[^/?]*)?)/*(.*?)/*(\?[a-z_]+=.*)?", re.DOTALL)


class RemotePath(NamedTuple):
    """Where a URI points: `names` below `top`, which is the bucket or the root of `fs`."""

    fs: Any
    top: str
    names: list[str]
    query: str
    """What belongs to the last name, but may be a secret."""
    shown: str
    """The URI of `top`, without options and credentials."""
    store: str
    """Equal for the same store."""


def remote_path(uri: str) -> RemotePath:
    """The place of a URI whose names are taken as they are written, also with `*`, `[` or (in stores that pyarrow
    knows) `?`; UsageError.
    """
    match = _PARTS.fullmatch(uri)
    if match is None:
        raise UsageError(f"{one_line(without_secrets(uri))} is not a URI, e.g. s3://bucket/path")
    root, path, options, query = match[1], match[2], match[3] or "", ""
    if root.partition(":")[0].lower() not in BUILT_IN:
        path, mark, query = (path + options).partition("?")
        options, query = "", mark + query
    found, top = file_system(f"{root}/{options}")
    names = [name for name in path.split("/") if name]
    return RemotePath(found, top, names, query, without_secrets(root), f"{found.type_name}{options}")


def file_system(uri: str) -> tuple[Any, str]:
    """The file system of a URI and the path in it; UsageError for one that cannot be used."""
    scheme = uri.partition(":")[0].lower()
    _check_no_secret(uri, scheme)
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
        shown = one_line(without_secrets(uri))
        raise UsageError(f"{shown}: {words_of(error)}") from None
    return _fsspec(uri, scheme)


def _check_no_secret(uri: str, scheme: str) -> None:
    """UsageError for credentials in a URI: a list of processes and a shell's history show them."""
    authority = uri.partition("//")[2].partition("/")[0].partition("?")[0]
    user, at, _ = authority.rpartition("@")
    if (scheme in S3 and (at or ":" in authority)) or (scheme in BUILT_IN and ":" in user):
        of = "AZURE_STORAGE_KEY" if scheme in ("abfs", "abfss") else _AWS_VARIABLES
        raise UsageError(f"credentials do not belong into a URI; set {of}", code="credentials")


def _s3(uri: str) -> tuple[Any, str]:
    parts = urlsplit(uri)
    options = dict(parse_qsl(parts.query))
    unknown = next((name for name in options if name not in _S3_OPTIONS), None)
    if unknown is not None:
        raise UsageError(
            f"{one_line(without_secrets(uri))}: unknown option '{one_line(unknown)}'; known: {', '.join(_S3_OPTIONS)}"
        )
    bucket = parts.netloc
    if not bucket:
        raise UsageError(f"{one_line(without_secrets(uri))} names no bucket, e.g. s3://bucket/path")
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
        raise UsageError(f"{one_line(without_secrets(uri))} names no container, e.g. abfss://container@account/orders")
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
    shown = one_line(without_secrets(uri))
    try:
        fsspec: Any = import_module("fsspec.core")  # an extra
    except ImportError:
        raise UsageError(
            f"{shown}: {scheme}:// needs fsspec and the package of {scheme}: {install_command('fsspec')}",
            code="missing_extra",
        ) from None
    try:
        found, path = fsspec.url_to_fs(uri)
        handler: Any = fs.FSSpecHandler
        return fs.PyFileSystem(handler(found)), path.rstrip("/")
    except Exception as error:  # noqa: BLE001 - each store raises what its library does
        raise UsageError(f"{shown}: {words_of(error)}") from None


def words_of(error: Exception) -> str:
    """The error in one line, without request ids, and without the secrets of the URIs that it repeats."""
    text = _IN_TEXT.sub(lambda uri: without_secrets(uri[0]), str(error))
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


def is_missing(error: Exception) -> bool:
    """Whether it means that there is no such file or directory; Google's store gives only the text."""
    return isinstance(error, FileNotFoundError) or _NO_SUCH_FILE in str(error)


def is_of_store(error: Exception) -> bool:
    """Whether the store or the network failed; False: perhaps the content."""
    return any(sign in str(error) for sign in _KNOWN) or _AWS_ERROR.search(str(error)) is not None


def without_secrets(uri: str) -> str:
    """The URI without a query, and without what precedes an @: the password where an account's name does."""
    kept = r"//\1@" if uri.partition(":")[0].lower() in BUILT_IN else "//"
    return re.sub(r"//([^/@:]*)(:[^/@]*)?@", kept, uri.partition("?")[0], count=1)


def end_without_requests() -> None:
    """Let the process end at once: by itself it would wait for requests to a store that does not answer."""
    atexit.unregister(fs.ensure_s3_finalized)
