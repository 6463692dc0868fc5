"""A broker that asks for certificates or passwords, the authority behind it, and topics that are on it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka import KafkaProducer
from kafka.admin import (
    ACL,
    ACLOperation,
    ACLPermissionType,
    KafkaAdminClient,
    ResourcePattern,
    ResourceType,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from wmtop.engine.kafka.local_broker import HOST, LocalBroker

from .certificates import Authority

USER = "watcher"
MARK = "Zx81Qk"
"""In every secret: however a text is escaped, this stays as it is."""
PASSWORD = f'pa"ss\\wörd;= #1 {MARK}'
"""With all that a properties file and a login module's line escape."""
TOPICS = TOPIC, HIDDEN_TOPIC, UNREADABLE_TOPIC = "orders", "hidden", "unreadable"
"""The user may read the first, not see the second, and not read the third."""
RECORDS = 6
CLEAR, SAFE, TLS = "CLEAR", "SAFE", "TLS"
"""Listeners: SASL without encryption, SASL over TLS, TLS that asks for the client's certificate."""

_MODULES = "org.apache.kafka.common.security"


@contextmanager
def no_kafka_variables() -> Iterator[None]:
    """An environment without Kafka's variables, which is as it was afterwards."""
    with patch.dict(os.environ):
        for name in [name for name in os.environ if name.startswith(("KAFKA_", "WMTOP_KAFKA_"))]:
            del os.environ[name]
        yield


class Secured:
    """The broker, what it trusts, and a client's certificate that it takes."""

    def __init__(self, directory: Path) -> None:
        authority = Authority()
        self.ca = authority.certificate
        self.client = authority.issue("watcher.test")
        server = authority.issue(HOST)  # for its address, not for its name
        self.broker = LocalBroker(
            directory,
            listeners={CLEAR: "SASL_PLAINTEXT", SAFE: "SASL_SSL", TLS: "SSL"},
            properties={
                "ssl.keystore.type": "PEM",
                "ssl.keystore.certificate.chain": server.chain,
                "ssl.keystore.key": server.key(),
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": self.ca,
                "listener.name.safe.ssl.client.auth": "requested",
                "listener.name.tls.ssl.client.auth": "required",
                "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "allow.everyone.if.no.acl.found": "true",
                "super.users": "User:ANONYMOUS",
                **_logins("clear"),
                **_logins("safe"),
            },
        )

    def start(self) -> None:
        """Start it, with a user for each mechanism and records in the topic."""
        self.broker.start(print)
        admin: Any = KafkaAdminClient(bootstrap_servers=self.broker.bootstrap)
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):  # one at a time, or none is kept
            admin.alter_user_scram_credentials([UserScramCredentialUpsertion(USER, mechanism, PASSWORD.encode())])
        wanted = {"num_partitions": 2, "replication_factor": 1, "configs": {"retention.ms": "-1"}}
        admin.create_topics(dict.fromkeys(TOPICS, wanted), wait_for_metadata=True)
        made = admin.create_acls(
            [_only(HIDDEN_TOPIC, "nobody", ACLOperation.READ), _only(UNREADABLE_TOPIC, USER, ACLOperation.DESCRIBE)]
        )
        assert not made["failed"]
        admin.close()
        producer: Any = KafkaProducer(bootstrap_servers=self.broker.bootstrap)
        for number in range(RECORDS):
            producer.send(TOPIC, b"%d" % number, partition=number % 2, timestamp_ms=1_700_000_000_000 + number)
        producer.flush()
        producer.close()


def _only(topic: str, user: str, operation: ACLOperation) -> ACL:
    what = ResourcePattern(ResourceType.TOPIC, topic)
    return ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, what)


def _logins(listener: str) -> dict[str, str]:
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    prefix = f"listener.name.{listener}"
    scram = f"{_MODULES}.scram.ScramLoginModule required;"
    return {
        f"{prefix}.plain.sasl.jaas.config": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{escaped}";',
        f"{prefix}.scram-sha-256.sasl.jaas.config": scram,
        f"{prefix}.scram-sha-512.sasl.jaas.config": scram,
    }
