"""Finds out why a broker refuses a client; kafka-python itself retries and reports only a timeout."""

# pyright: reportMissingTypeStubs=false, reportUnknownArgumentType=false, reportUnknownVariableType=false
# (kafka-python is only partly typed.)

import socket
import ssl
from typing import Any, cast

from kafka.cluster import collect_hosts
from kafka.errors import KafkaError, for_code
from kafka.net.sasl import get_sasl_mechanism
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.metadata.api_versions import ApiVersionsRequest
from kafka.protocol.parser import KafkaProtocol
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest

from ..system.errors import UsageError
from .client_settings import KafkaConfig

ANOTHER_NAME = "has a certificate for another name"

_TIMEOUT_S = 3.0
_ILLEGAL_STATE = 34
_UNSUPPORTED_MECHANISM = 33
_NOT_VALID_YET_OR_ANY_MORE = (9, 10)
_OTHER_NAME = (62, 64)


class _RefusedError(Exception):
    """The reason, to be appended to `the Kafka broker at ADDRESS`."""


def enter(config: KafkaConfig, within_s: float) -> None:
    """Take a client's first steps at the first broker that accepts a connection: TLS, authentication, a request.

    UsageError if it refuses them, OSError if no broker accepts a connection; nothing if a broker gives no answer.
    """
    hosts = collect_hosts(config.servers, randomize=False)
    failure: str | None = "no address"
    for host, port, _ in hosts:
        try:
            connection = socket.create_connection((host, port), within_s / len(hosts))
        except OSError as error:
            failure = failure and (error.strerror or str(error))
            continue
        try:
            connection.settimeout(_TIMEOUT_S)
            with connection:
                if config.protocol.endswith("SSL"):
                    connection = _with_tls(connection, host, config)
                with connection:
                    _talk(connection, config)
            return
        except _RefusedError as error:
            raise UsageError(f"the Kafka broker at {host}:{port} {error}") from None
        except (OSError, ValueError, KafkaError):
            failure = None  # it is reached, but gives no answer
    if failure is not None:
        raise OSError(failure)


def _with_tls(connection: socket.socket, host: str, config: KafkaConfig) -> ssl.SSLSocket:
    context: ssl.SSLContext = config.for_python()["ssl_context"]
    try:
        return context.wrap_socket(connection, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        raise _RefusedError(_distrust(error)) from None
    except (ssl.SSLError, ConnectionError) as error:
        if "ALERT" in str(getattr(error, "reason", "")):
            raise _RefusedError(_not_our_certificate(config)) from None
        raise _RefusedError(
            f"does not use TLS on this port; use the TLS port for security.protocol={config.protocol}, "
            "or set PLAINTEXT or SASL_PLAINTEXT"
        ) from None


def _distrust(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _OTHER_NAME:
        return (
            f"{ANOTHER_NAME} ({error.verify_message}); use a name in the certificate, or an empty "
            "ssl.endpoint.identification.algorithm"
        )
    if error.verify_code in _NOT_VALID_YET_OR_ANY_MORE:
        return f"has a certificate that is not valid now: {error.verify_message}"
    return (
        f"has a certificate that is not trusted ({error.verify_message}); give its authority with "
        "ssl.truststore.location or ssl.ca.location"
    )


def _not_our_certificate(config: KafkaConfig) -> str:
    if config.value("ssl.keystore.certificate.chain") is None:
        return (
            "requires a client certificate; set ssl.keystore.location, or ssl.certificate.location and ssl.key.location"
        )
    return "rejects the client certificate; check that it trusts the authority that issued it"


def _talk(connection: socket.socket, config: KafkaConfig) -> None:
    conversation = _Conversation(connection)
    try:
        conversation.ask(ApiVersionsRequest(version=0))
    except (EOFError, ConnectionError, KafkaError):
        if config.protocol.endswith("SSL"):
            raise _RefusedError(_not_our_certificate(config)) from None
        raise _RefusedError(
            f"closed the connection; it may require TLS: "
            f"set security.protocol={config.protocol.replace('PLAINTEXT', 'SSL')} in --kafka-config"
        ) from None
    except ssl.SSLError:
        raise _RefusedError(_not_our_certificate(config)) from None
    if config.protocol.startswith("SASL"):
        _authenticate(conversation, config)
        return
    try:
        conversation.ask(MetadataRequest(topics=[], version=1))
    except (EOFError, ConnectionError):
        wanted = "SASL_SSL" if config.protocol == "SSL" else "SASL_PLAINTEXT"
        raise _RefusedError(
            f"requires authentication; set security.protocol={wanted}, sasl.mechanism and a user in --kafka-config"
        ) from None


def _authenticate(conversation: "_Conversation", config: KafkaConfig) -> None:
    arguments = config.for_python()
    mechanism: str = arguments["sasl_mechanism"]
    answer = conversation.ask(SaslHandshakeRequest(mechanism=mechanism, version=1))
    if answer.error_code == _UNSUPPORTED_MECHANISM:
        raise _RefusedError(f"does not support sasl.mechanism={mechanism}; it supports {', '.join(answer.mechanisms)}")
    if answer.error_code == _ILLEGAL_STATE:
        wanted = "SSL" if config.protocol == "SASL_SSL" else "PLAINTEXT"
        raise _RefusedError(
            f"does not accept authentication on this port; use another port, or security.protocol={wanted}"
        )
    if answer.error_code:
        raise for_code(answer.error_code)()
    sasl = cast(Any, get_sasl_mechanism(mechanism)(**arguments))
    while not sasl.is_done():
        answer = conversation.ask(SaslAuthenticateRequest(auth_bytes=sasl.auth_bytes(), version=0))
        if answer.error_code:
            user = arguments["sasl_plain_username"]
            raise _RefusedError(f"refuses user '{user}' with {mechanism}; check user name, password and sasl.mechanism")
        sasl.receive(answer.auth_bytes)


class _Conversation:
    """Requests and answers over a connection, one after the other."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._protocol: Any = KafkaProtocol(client_id="wmtop")

    def ask(self, request: Any) -> Any:
        """The answer; EOFError if the broker closes the connection instead."""
        self._protocol.send_request(request)
        self._connection.sendall(self._protocol.send_bytes())
        while data := self._connection.recv(65_536):
            for _, answer in self._protocol.receive_bytes(data):
                return answer
        raise EOFError
