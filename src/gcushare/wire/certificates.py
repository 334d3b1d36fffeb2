"""Reads when certificates end from their DER, so that no program needs a cryptography library for it.

Source: RFC 5280, section 4.1: Certificate and TBSCertificate; times as UTCTime or GeneralizedTime.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from datetime import UTC, datetime

from gcushare.core.errors import RemoteContractError

# OpenSSL accepts all three. A TRUSTED CERTIFICATE has extra data after the certificate, which is not read.
_BEGIN = re.compile(rb"-----BEGIN ((?:X509 |TRUSTED )?CERTIFICATE)-----")
_SEQUENCE, _INTEGER, _UTC_TIME, _GENERALIZED_TIME, _EXPLICIT_VERSION = 0x30, 0x02, 0x17, 0x18, 0xA0


def first_end(pem: bytes) -> datetime:
    """The earliest end among the certificates of a PEM file. A chain is valid only until its first certificate ends.

    Raises:
        RemoteContractError: the file has no certificate, or one that cannot be read.
    """
    found = list(_certificates_in(pem))
    if not found:
        raise RemoteContractError("it contains no PEM certificate")
    try:
        return min(_end_of(base64.b64decode(b"".join(text.split()), validate=True)) for text in found)
    except binascii.Error as failure:
        raise RemoteContractError(f"its PEM is not base64: {failure}") from failure


def _certificates_in(pem: bytes) -> Iterator[bytes]:
    """Find the base64 of each certificate, in a time that is proportional to the file."""
    at, unended = 0, set[bytes]()
    while (begin := _BEGIN.search(pem, at)) is not None:
        at, kind = begin.end(), begin[1]
        end = -1 if kind in unended else pem.find(b"-----END %b-----" % kind, at)
        if end < 0:
            unended.add(kind)  # nor do later ones of this kind end
            continue
        yield pem[at:end]
        at = end


def _end_of(der: bytes) -> datetime:
    """Read when a certificate ends: its notAfter."""
    certificate = _Cursor(der).enter(_SEQUENCE)
    body = certificate.enter(_SEQUENCE)
    if body.tag == _EXPLICIT_VERSION:
        body.take(_EXPLICIT_VERSION)
    body.take(_INTEGER)  # serial number
    body.take(_SEQUENCE)  # signature algorithm
    body.take(_SEQUENCE)  # issuer
    validity = body.enter(_SEQUENCE)
    validity.take()
    tag, value = validity.take()
    text = value.decode("ascii", errors="replace")
    form = {_UTC_TIME: "%y%m%d%H%M%SZ", _GENERALIZED_TIME: "%Y%m%d%H%M%SZ"}.get(tag)
    try:
        if form is None:
            raise ValueError(f"tag {tag:#04x}")
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError as failure:
        raise RemoteContractError(f"its certificate has no readable end: {text!r} ({failure})") from failure


class _Cursor:
    """Walks over one level of DER."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def tag(self) -> int:
        """The tag of what comes next."""
        return self._data[self._at] if self._at < len(self._data) else -1

    def take(self, expected: int | None = None) -> tuple[int, bytes]:
        """Read the next value, of any tag or the ``expected`` one, and move past it."""
        tag, start = self.tag, self._at + 2
        if start > len(self._data):
            raise RemoteContractError("its certificate ends in the middle")
        length = self._data[self._at + 1]
        if length & 0x80:
            digits = length & 0x7F
            length = int.from_bytes(self._data[start : start + digits], "big")
            start += digits
        if start + length > len(self._data):
            raise RemoteContractError("its certificate ends in the middle")
        if expected is not None and tag != expected:
            raise RemoteContractError(f"its certificate is not X.509: found tag {tag:#04x}, expected {expected:#04x}")
        self._at = start + length
        return tag, self._data[start : start + length]

    def enter(self, expected: int) -> _Cursor:
        """Return a cursor for the inside of a value with a known tag. This cursor moves past the value."""
        return _Cursor(self.take(expected)[1])
