"""Checks HTTP addresses in settings."""

from __future__ import annotations

from urllib.parse import urlsplit


def is_http_address(text: str) -> bool:
    """Whether a text is ``http://HOST[:PORT]`` or ``https://HOST[:PORT]``, with any path."""
    try:
        parts = urlsplit(text)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # unbalanced brackets, or an invalid port
        return False
