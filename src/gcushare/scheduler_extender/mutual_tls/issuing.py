"""Decide which certificates of the two sides are due, and make them with ``cryptography``.

One authority signs for both sides. Its certificate is renewed long before it ends, with the same key and name: a peer
that trusts the earlier one verifies what is signed afterwards, so no side is ever shown a certificate that it cannot
verify.

``cryptography`` takes 0.15 s to import: this module is imported only where certificates are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from gcushare.core.wording import counted
from gcushare.wire import contracts

CERTIFICATE_LIFE = timedelta(days=365)
AUTHORITY_LIVES = 15
"""The life of the authority in lives of a certificate."""
RENEWAL_SHARE = 2 / 3
"""The share of its life after which each certificate, the authority's too, is renewed."""
CLOCK_TOLERANCE = timedelta(hours=1)
"""A certificate is valid from this long before it is made, because the clocks of nodes differ."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The names and the life of the certificates."""

    server_names: tuple[str, ...]
    life: timedelta = CERTIFICATE_LIFE


@dataclass(frozen=True, slots=True)
class Issue:
    """A complete set, as the Secret stores it, and why it was made."""

    data: Mapping[str, bytes]
    reason: str


@dataclass(frozen=True, slots=True)
class _Pair:
    """A certificate with its key."""

    cert: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def cert_pem(self) -> bytes:
        return self.cert.public_bytes(Encoding.PEM)

    @property
    def key_pem(self) -> bytes:
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())

    def is_early(self, now: datetime) -> bool:
        """Whether it is not valid yet: it was made by a clock that is wrong, or ours is."""
        return self.cert.not_valid_before_utc > now

    def is_past(self, part: float, now: datetime) -> bool:
        """Whether this part of its life is over."""
        begin, end = self.cert.not_valid_before_utc, self.cert.not_valid_after_utc
        return now >= begin + part * (end - begin)


@dataclass(frozen=True, slots=True)
class _Set:
    authority: _Pair
    server: _Pair
    client: _Pair

    def data(self) -> Mapping[str, bytes]:
        return {
            contracts.CA: self.authority.cert_pem,
            contracts.CA_KEY: self.authority.key_pem,
            contracts.SERVER_CERT: self.server.cert_pem,
            contracts.SERVER_KEY: self.server.key_pem,
            contracts.CLIENT_CERT: self.client.cert_pem,
            contracts.CLIENT_KEY: self.client.key_pem,
        }


def next_issue(data: Mapping[str, bytes], terms: Terms, now: datetime) -> Issue | None:
    """Decide what to change in the contents of the Secret; None if nothing is due.

    Certificates are renewed after ``RENEWAL_SHARE`` of their life, both sides' together, and with the authority's. A
    set that is incomplete, or whose parts do not belong together, is replaced by a new one. Certificates that are not
    valid yet are replaced too: a replica whose clock was wrong made them, and without that they would be refused until
    its wrong time came. Clocks that differ by less than ``CLOCK_TOLERANCE`` never cause that.
    """
    try:
        held = _read(data)
    except (KeyError, ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        cause = f"{type(error).__name__}: {str(error)[:200] or 'no reason given'}"
        # The name differs from an earlier authority's: two of one name would be distinguished by trying both.
        name = _name(f"gcushare scheduler calls {x509.random_serial_number():x}")
        authority = _signed_itself(ec.generate_private_key(ec.SECP256R1()), name, terms, now)
        reason = f"existing certificates are unusable: {cause}" if data else "there are no certificates yet"
        return Issue(_issued_by(authority, terms, now).data(), reason)
    is_early = held.authority.is_early(now)
    if is_early or held.authority.is_past(RENEWAL_SHARE, now):
        reason = "is not valid yet, a clock was wrong" if is_early else "is past two thirds of its life"
        renewed = _signed_itself(held.authority.key, held.authority.cert.subject, terms, now)
        return Issue(_issued_by(renewed, terms, now).data(), f"the authority {reason}")
    both = (held.server, held.client)
    is_early = any(each.is_early(now) for each in both)
    if is_early or any(each.is_past(RENEWAL_SHARE, now) for each in both):
        reason = "they are not valid yet, a clock was wrong" if is_early else "two thirds of their life are over"
        return Issue(_issued_by(held.authority, terms, now).data(), reason)
    if _names_of(held.server.cert) != set(terms.server_names):
        changed = replace(held, server=_server(held.authority, terms, now))
        return Issue(changed.data(), f"the server is now called {', '.join(terms.server_names)}")
    return None


def _issued_by(authority: _Pair, terms: Terms, now: datetime) -> _Set:
    return _Set(authority, _server(authority, terms, now), _client(authority, terms, now))


def _read(data: Mapping[str, bytes]) -> _Set:
    """Read a set. Raises what ``cryptography`` raises for broken ones, and ValueError for parts that do not fit."""
    trusted = x509.load_pem_x509_certificates(data[contracts.CA])
    if len(trusted) != 1:
        raise ValueError(f"{contracts.CA} has {counted(len(trusted), 'certificate')}, expected one")
    authority = _pair(trusted[0], data[contracts.CA_KEY])
    server = _pair(x509.load_pem_x509_certificate(data[contracts.SERVER_CERT]), data[contracts.SERVER_KEY])
    client = _pair(x509.load_pem_x509_certificate(data[contracts.CLIENT_CERT]), data[contracts.CLIENT_KEY])
    for each in (server, client):
        each.cert.verify_directly_issued_by(authority.cert)
    return _Set(authority, server, client)


def _pair(cert: x509.Certificate, key_pem: bytes) -> _Pair:
    key = load_pem_private_key(key_pem, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("a key is not an elliptic curve key")
    forms = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if key.public_key().public_bytes(*forms) != cert.public_key().public_bytes(*forms):
        raise ValueError(f"the key of {cert.subject.rfc4514_string()} belongs to another certificate")
    return _Pair(cert, key)


def _names_of(cert: x509.Certificate) -> set[str]:
    """The server's names; empty for a certificate without names, which an admin may have signed by hand."""
    try:
        names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return set()
    return set(names.get_values_for_type(x509.DNSName))


def _signed_itself(key: ec.EllipticCurvePrivateKey, name: x509.Name, terms: Terms, now: datetime) -> _Pair:
    builder = _builder(name, name, key, now, AUTHORITY_LIVES * terms.life, is_authority=True)
    return _Pair(builder.serial_number(x509.random_serial_number()).sign(key, hashes.SHA256()), key)


def _server(authority: _Pair, terms: Terms, now: datetime) -> _Pair:
    return _signed(authority, terms.server_names, ExtendedKeyUsageOID.SERVER_AUTH, now, terms.life)


def _client(authority: _Pair, terms: Terms, now: datetime) -> _Pair:
    return _signed(authority, (contracts.SCHEDULER_NAME,), ExtendedKeyUsageOID.CLIENT_AUTH, now, terms.life)


def _signed(
    authority: _Pair, names: Sequence[str], purpose: x509.ObjectIdentifier, now: datetime, life: timedelta
) -> _Pair:
    """Make a certificate for peers of these names; the first is its common name too."""
    key = ec.generate_private_key(ec.SECP256R1())
    builder = _builder(_name(names[0]), authority.cert.subject, key, now, life, is_authority=False)
    builder = builder.serial_number(x509.random_serial_number())
    for extension in (
        x509.ExtendedKeyUsage([purpose]),
        x509.SubjectAlternativeName([x509.DNSName(name) for name in names]),
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()),
    ):
        builder = builder.add_extension(extension, critical=False)
    return _Pair(builder.sign(authority.key, hashes.SHA256()), key)


def _name(common_name: str) -> x509.Name:
    """A name; X.509 allows 64 characters."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    now: datetime,
    life: timedelta,
    *,
    is_authority: bool,
) -> x509.CertificateBuilder:
    usage = x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
    constraints = x509.BasicConstraints(ca=is_authority, path_length=0 if is_authority else None)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .not_valid_before(now - CLOCK_TOLERANCE)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(constraints, critical=True)
        .add_extension(usage, critical=True)
    )
