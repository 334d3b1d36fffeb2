"""Reads when certificates end from their DER, so that no program needs a cryptography library for it.

Source: RFC 5280, section 4.1: Certificate and TBSCertificate; times as UTCTime or GeneralizedTime.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime

from gcushare.core.errors import RemoteContractError

# Of base64's characters alone, so that a certificate without an end is not read again from each of many beginnings.
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----([A-Za-z0-9+/=\s]*)-----END CERTIFICATE-----")
_TIMES = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""The forms of UTCTime and GeneralizedTime by their tags."""
_EXPLICIT_VERSION = 0xA0


def first_end(pem: bytes) -> datetime:
    """The earliest end among the certificates of a PEM file. A chain is valid only until its first certificate ends.

    Raises:
        RemoteContractError: the file has no certificate, or one that cannot be read.
    """
    found = _CERTIFICATE.findall(pem)
    if not found:
        raise RemoteContractError("it contains no PEM certificate")
    try:
        return min(_end_of(base64.b64decode(b"".join(text.split()), validate=True)) for text in found)
    except (ValueError, IndexError) as failure:
        raise RemoteContractError("its certificate is not X.509") from failure


def _end_of(der: bytes) -> datetime:
    """Read when a certificate ends: its notAfter. Raises ``ValueError`` or ``IndexError`` for what is none."""
    ((_, certificate),) = _values(der)
    body = _values(_values(certificate)[0][1])
    fields = [value for tag, value in body if tag != _EXPLICIT_VERSION]
    _serial, _algorithm, _issuer, validity, *_ = fields
    tag, end = _values(validity)[1]
    return datetime.strptime(end.decode("ascii"), _TIMES.get(tag, "a time")).replace(tzinfo=UTC)


def _values(data: bytes) -> list[tuple[int, bytes]]:
    """Read the values of one level of DER, with their tags."""
    found, at = [], 0
    while at < len(data):
        size, start = data[at + 1], at + 2
        if size & 0x80:
            start += size & 0x7F
            size = int.from_bytes(data[at + 2 : start], "big")
        if start + size > len(data):
            raise ValueError("it ends in the middle")
        found.append((data[at], data[start : start + size]))
        at = start + size
    return found
