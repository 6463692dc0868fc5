"""Certificates made for a test: an authority, and what it issues, in the forms that people have them."""

from typing import Any

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from cryptography.x509 import load_pem_x509_certificates


class Issued:
    """A certificate and its key, as PEM text."""

    def __init__(self, issued: trustme.LeafCert) -> None:
        self.chain = "".join(blob.bytes().decode() for blob in issued.cert_chain_pems)
        self._key: Any = load_pem_private_key(issued.private_key_pem.bytes(), None)
        self.old_key = issued.private_key_pem.bytes().decode()
        """In the form of its algorithm, which Java does not read."""

    def key(self, password: str | None = None) -> str:
        """The key as PKCS #8, encrypted where there is a password."""
        sealed: KeySerializationEncryption = NoEncryption()
        if password is not None:
            sealed = BestAvailableEncryption(password.encode())
        return self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, sealed).decode()

    def store(self, password: str) -> bytes:
        """Certificate, chain and key as PKCS #12."""
        own, *others = load_pem_x509_certificates(self.chain.encode())
        return serialize_key_and_certificates(b"me", self._key, own, others, BestAvailableEncryption(password.encode()))


class Authority:
    """Issues certificates through another one, so that a chain has two."""

    def __init__(self) -> None:
        root = trustme.CA(key_type=trustme.KeyType.RSA)
        self.certificate = root.cert_pem.bytes().decode()
        self._issuing = root.create_child_ca(key_type=trustme.KeyType.RSA)

    def issue(self, name: str) -> Issued:
        return Issued(self._issuing.issue_cert(name, key_type=trustme.KeyType.RSA))
