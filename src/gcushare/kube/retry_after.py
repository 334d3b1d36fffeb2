"""Reads how long the API server, or a proxy before it, asks us to wait before a request is sent again."""

from __future__ import annotations

import re

MAX_RETRY_AFTER_S = 120.0
"""Longest Retry-After of a server that we obey. A proxy that asks for an hour must not stop a node."""


def retry_after_s(header: str | None, details: float | None) -> float | None:
    """The delay in seconds; the header comes before the Status' details. HTTP dates are ignored: clocks may differ."""
    if header is not None and re.fullmatch(r"\s*\d{1,9}\s*", header, re.ASCII):
        return min(float(header), MAX_RETRY_AFTER_S)
    return None if not details or details < 0 else min(float(details), MAX_RETRY_AFTER_S)
