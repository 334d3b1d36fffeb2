"""Decide which certificates of the two sides are due, and make them with ``cryptography``.

Two authorities are trusted from the first day on: the one that signs, and the next one. When the next one begins to
sign, five lives of a certificate later, every peer trusts it already, so no side is ever shown a certificate that it
cannot verify.

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

AUTHORITY_LIVES = 15
"""The life of an authority in lives of a certificate. For a third of it the authority is only trusted, for a third it
signs, and in the last third nothing that it signed is left. The first authority signs from its first day, so it has
half of that life."""
RENEWAL_SHARE = 2 / 3
"""The share of its life after which a certificate is renewed, and an authority stops signing."""
CLOCK_TOLERANCE = timedelta(hours=1)
"""A certificate is valid from this long before it is made, because the clocks of nodes differ."""


@dataclass(frozen=True, slots=True)
class Terms:
    """The names and the life of the certificates."""

    server_names: tuple[str, ...]
    life: timedelta

    @property
    def authority_life(self) -> timedelta:
        return AUTHORITY_LIVES * self.life


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
    signing: _Pair
    next: _Pair
    before: tuple[x509.Certificate, ...]
    server: _Pair
    client: _Pair

    def data(self) -> Mapping[str, bytes]:
        trusted = (self.signing.cert, self.next.cert, *self.before)
        return {
            contracts.CA: b"".join(each.public_bytes(Encoding.PEM) for each in trusted),
            contracts.CA_KEY: self.signing.key_pem,
            contracts.NEXT_CA_KEY: self.next.key_pem,
            contracts.SERVER_CERT: self.server.cert_pem,
            contracts.SERVER_KEY: self.server.key_pem,
            contracts.CLIENT_CERT: self.client.cert_pem,
            contracts.CLIENT_KEY: self.client.key_pem,
        }


def next_issue(data: Mapping[str, bytes], terms: Terms, now: datetime) -> Issue | None:
    """Decide what to change in the contents of the Secret; None if nothing is due.

    Certificates are renewed after ``RENEWAL_SHARE`` of their life, and an authority signs until that share of its own.
    A set that is incomplete, or whose parts do not belong together, is replaced by a new one. Certificates that are not
    valid yet are replaced too: a replica whose clock was wrong made them, and without that they would be refused until
    its wrong time came. Clocks that differ by less than ``CLOCK_TOLERANCE`` never cause that.
    """
    try:
        held = _read(data)
    except (KeyError, ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm, x509.InvalidVersion) as error:
        cause = f"{type(error).__name__}: {str(error)[:200] or 'no reason given'}"
        none_yet = "there are no certificates yet"
        return _first_issue(terms, now, f"existing certificates are unusable: {cause}" if data else none_yet)
    if held.signing.is_past(1, now) or held.next.is_past(1, now):
        return _first_issue(terms, now, "the authority has ended")
    if held.signing.is_early(now):
        return _first_issue(terms, now, "the authority is not valid yet, a clock was wrong")
    if held.next.is_early(now):
        changed = replace(held, next=_authority(terms.authority_life, now))
        return Issue(changed.data(), "the next authority is not valid yet, a clock was wrong")
    # Not sooner than a certificate's life after the next one was published, unless there is no time left for that.
    published, end = held.next.cert.not_valid_before_utc, held.signing.cert.not_valid_after_utc
    is_next_known = published <= now - terms.life or end < now + terms.life
    if held.signing.is_past(RENEWAL_SHARE, now) and is_next_known:
        changed = _Set(
            signing=held.next,
            next=_authority(terms.authority_life, now),
            before=(held.signing.cert,),
            server=_server(held.next, terms, now),
            client=_client(held.next, terms, now),
        )
        return Issue(changed.data(), "the next authority begins to sign")
    both = (held.server, held.client)
    is_early = any(each.is_early(now) for each in both)
    if is_early or any(each.is_past(RENEWAL_SHARE, now) for each in both):
        reason = "they are not valid yet, a clock was wrong" if is_early else "two thirds of their life are over"
        server, client = _server(held.signing, terms, now), _client(held.signing, terms, now)
        # Peers that trusted only the authority before have read the newer ones a certificate's life ago.
        return Issue(replace(held, before=(), server=server, client=client).data(), reason)
    if _names_of(held.server.cert) != set(terms.server_names):
        changed = replace(held, server=_server(held.signing, terms, now))
        return Issue(changed.data(), f"the server is now called {', '.join(terms.server_names)}")
    return None


def _first_issue(terms: Terms, now: datetime, reason: str) -> Issue:
    signing, following = _authority(terms.authority_life / 2, now), _authority(terms.authority_life, now)
    made = _Set(signing, following, (), _server(signing, terms, now), _client(signing, terms, now))
    return Issue(made.data(), reason)


def _read(data: Mapping[str, bytes]) -> _Set:
    """Read a set. Raises what ``cryptography`` raises for broken ones, and ValueError for parts that do not fit."""
    trusted = x509.load_pem_x509_certificates(data[contracts.CA])
    if len(trusted) < 2:
        raise ValueError(f"{contracts.CA} has {counted(len(trusted), 'certificate')}, expected two or more")
    signing, following = _pair(trusted[0], data[contracts.CA_KEY]), _pair(trusted[1], data[contracts.NEXT_CA_KEY])
    server = _pair(x509.load_pem_x509_certificate(data[contracts.SERVER_CERT]), data[contracts.SERVER_KEY])
    client = _pair(x509.load_pem_x509_certificate(data[contracts.CLIENT_CERT]), data[contracts.CLIENT_KEY])
    for each in (server, client):
        each.cert.verify_directly_issued_by(signing.cert)
    return _Set(signing, following, tuple(trusted[2:]), server, client)


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


def _authority(life: timedelta, now: datetime) -> _Pair:
    key, serial = ec.generate_private_key(ec.SECP256R1()), x509.random_serial_number()
    # Two authorities of one name would be distinguished by trying both: the serial number keeps the names apart.
    name = _name(f"gcushare scheduler calls {serial:x}")
    builder = _builder(name, name, key, now, life, is_authority=True).serial_number(serial)
    return _Pair(builder.sign(key, hashes.SHA256()), key)


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
