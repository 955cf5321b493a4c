"""Certificates made for a test: an authority of its own, and server contexts that are good or bad in one way each."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import trustme
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class Authority:
    """A certificate authority; `pem` is the file that a client has to trust."""

    def __init__(self, folder: Path) -> None:
        self._authority = trustme.CA()
        self.pem = folder / "authority.pem"
        self._authority.cert_pem.write_to_path(str(self.pem))

    def context(self, *names: str, expired: bool = False) -> ssl.SSLContext:
        """A server's context for these host names (the loopback address if none)."""
        past = datetime.now(UTC) - timedelta(days=2)
        issued = self._authority.issue_cert(*(names or ("127.0.0.1",)), not_after=past if expired else None)
        with issued.private_key_and_cert_chain_pem.tempfile() as path:
            return _serving(Path(path))


def self_signed(folder: Path) -> ssl.SSLContext:
    """A server's context for the loopback address that vouches for itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "self-signed.pem"
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(secret + made.public_bytes(pem))
    return _serving(path)


def _serving(path: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    context.set_alpn_protocols(["http/1.1"])
    return context
