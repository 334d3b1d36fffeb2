"""How long the API server, or a proxy before it, asks to wait before the next request: HTTP 429 and 503."""

from __future__ import annotations

import re

from gcushare.wire.objects import Status

MAX_RETRY_AFTER_S = 120.0
"""Longest Retry-After of a server that we obey. A proxy that asks for an hour must not stop a node."""


def retry_after_s(header: str | None, status: Status) -> float | None:
    """The delay that the server, or a proxy before it, asks for: of the header, else of the Status.

    HTTP dates are ignored: clocks may differ.
    """
    if header is not None and re.fullmatch(r"\s*\d{1,9}\s*", header, re.ASCII):
        return min(float(header), MAX_RETRY_AFTER_S)
    asked_s = status.details.retry_after_seconds if status.details else None
    return None if not asked_s or asked_s < 0 else min(float(asked_s), MAX_RETRY_AFTER_S)
