"""A certificate authority of one's own, for a server that speaks TLS on loopback.

Needs the ``cryptography`` package, which is imported when asked for: it takes longer than all the rest.
"""

from __future__ import annotations

import ipaddress
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gcushare.core.errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import CertificateBuilder

_LIFETIME = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """PEM files: the server's certificate and key, and the authority that clients trust."""

    certificate: Path
    key: Path
    authority: Path

    def server_context(self) -> ssl.SSLContext:
        """Return the context with which the server answers."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.certificate, self.key)
        return context


def make_certificates(folder: Path, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> TlsFiles:
    """Write a new authority and a server certificate for ``hosts`` into ``folder``.

    Raises:
        ConfigError: the ``cryptography`` package is not installed.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise ConfigError(
            "cannot make certificates: the package 'cryptography' is not installed; install it, give existing PEM "
            "files, or serve plain HTTP"
        ) from error
    authority_key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = _builder("gcushare-playground-ca", "gcushare-playground-ca", authority_key)
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    authority = authority.add_extension(_key_usage(signs=True), critical=True)
    server = _builder("kube-apiserver", "gcushare-playground-ca", server_key)
    server = server.add_extension(_names(hosts), critical=False)
    server = server.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    server = server.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
    )
    folder.mkdir(parents=True, exist_ok=True)
    files = TlsFiles(folder / "apiserver.crt", folder / "apiserver.key", folder / "ca.crt")
    _write(files, authority, server, authority_key, server_key)
    return files


def _builder(subject: str, issuer: str, key: EllipticCurvePrivateKey) -> CertificateBuilder:
    from cryptography import x509

    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(
        subject_name=_name(subject),
        issuer_name=_name(issuer),
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        # A client whose clock is a little behind still accepts it.
        not_valid_before=now - timedelta(hours=1),
        not_valid_after=now + _LIFETIME,
    )
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)


def _name(common_name: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])


def _names(hosts: Sequence[str]) -> x509.SubjectAlternativeName:
    from cryptography import x509

    def name(host: str) -> x509.GeneralName:
        try:
            return x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            return x509.DNSName(host)

    return x509.SubjectAlternativeName([name(host) for host in hosts])


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _write(
    files: TlsFiles,
    authority: CertificateBuilder,
    server: CertificateBuilder,
    authority_key: EllipticCurvePrivateKey,
    server_key: EllipticCurvePrivateKey,
) -> None:
    from cryptography.hazmat.primitives import hashes, serialization

    pem = serialization.Encoding.PEM
    files.authority.write_bytes(authority.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    files.certificate.write_bytes(server.sign(authority_key, hashes.SHA256()).public_bytes(pem))
    files.key.touch(mode=0o600)
    files.key.write_bytes(
        server_key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
