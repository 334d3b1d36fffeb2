"""Certificate authorities for tests: small, fast and valid for the loopback."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_AN_HOUR = datetime.timedelta(hours=1)


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


@dataclass(frozen=True)
class Issued:
    """A certificate and its key, in PEM."""

    cert_pem: bytes
    key_pem: bytes
    serial: int

    @property
    def end_s(self) -> float:
        """When it ends, in seconds since 1970."""
        return x509.load_pem_x509_certificate(self.cert_pem).not_valid_after_utc.timestamp()

    def write(self, folder: Path, name: str = "tls") -> tuple[Path, Path]:
        folder.mkdir(parents=True, exist_ok=True)
        cert, key = folder / f"{name}.crt", folder / f"{name}.key"
        cert.write_bytes(self.cert_pem)
        key.write_bytes(self.key_pem)
        return cert, key


@dataclass
class Authority:
    """A certificate authority that issues for clients, and for servers on 127.0.0.1 that also have a name."""

    name: str
    lasts: datetime.timedelta = _AN_HOUR
    """How long its own certificate lasts, and each that is issued without a time."""
    _key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def cert_pem(self) -> bytes:
        return self._sign(self.name, self._key.public_key(), is_authority=True).public_bytes(serialization.Encoding.PEM)

    @classmethod
    def of(cls, cert_pem: bytes, key_pem: bytes) -> Authority:
        """One that somebody else made."""
        key = serialization.load_pem_private_key(key_pem, None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        (common,) = x509.load_pem_x509_certificate(cert_pem).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return cls(str(common.value), _key=key)

    def issue(
        self,
        common_name: str,
        *,
        begins: datetime.timedelta = -_AN_HOUR,
        lasts: datetime.timedelta | None = None,
        password: bytes | None = None,
    ) -> Issued:
        """Make a certificate; ``begins`` and ``lasts`` are counted from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        cert = self._sign(common_name, key.public_key(), is_authority=False, begins=begins, lasts=lasts)
        encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            encryption = serialization.BestAvailableEncryption(password)
        key_pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        return Issued(cert.public_bytes(serialization.Encoding.PEM), key_pem, cert.serial_number)

    def _sign(
        self,
        subject: str,
        key: ec.EllipticCurvePublicKey,
        *,
        is_authority: bool,
        begins: datetime.timedelta = -_AN_HOUR,
        lasts: datetime.timedelta | None = None,
    ) -> x509.Certificate:
        now = datetime.datetime.now(datetime.UTC)
        own = self._key.public_key()
        names = [x509.DNSName(subject), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=is_authority,
            crl_sign=is_authority,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        return (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name(self.name))
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now + begins)
            .not_valid_after(now + (lasts or self.lasts))
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )


def trusting(authority: Authority, client: Issued | None = None, folder: Path | None = None) -> ssl.SSLContext:
    """Return a client's context that trusts one authority and, given a certificate, shows it."""
    context = ssl.create_default_context(cadata=authority.cert_pem.decode())
    if client is not None and folder is not None:
        cert, key = client.write(folder, f"client-{client.serial}")
        context.load_cert_chain(cert, key)
    return context
