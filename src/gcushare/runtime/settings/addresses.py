"""Whether a text is an address at which a program can be asked."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_http_address(text: str) -> bool:
    """Whether it is ``http://HOST[:PORT]`` or ``https://HOST[:PORT]``, whatever path follows."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not close, a port that is no number or too large
        return False
