"""Compares resourceVersions of one collection."""

from __future__ import annotations


def is_at_least(seen: str, wanted: str) -> bool:
    """Whether a state at version ``seen`` includes everything up to ``wanted``; False if that is unknown.

    Source: the API's conventions make versions opaque, but all etcd-backed servers use decimal numbers, and Kubernetes
    documents them as comparable within a resource from 1.35 on. Other versions are only compared for equality.
    """
    if not (_is_number(seen) and _is_number(wanted)):
        return bool(seen) and seen == wanted
    return int(seen) >= int(wanted)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()
