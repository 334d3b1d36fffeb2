"""Which of two resourceVersions of one collection is the newer, where that can be known."""

from __future__ import annotations


def is_at_least(seen: str, wanted: str) -> bool:
    """Whether what was read at version ``seen`` holds everything up to ``wanted``; False where that cannot be known.

    Source: versions are opaque by the API's conventions, decimal numbers in every etcd-backed server, and documented to
    be comparable within a resource from Kubernetes 1.35 on. Others count as reached only when they are equal.
    """
    if not (_is_number(seen) and _is_number(wanted)):
        return bool(seen) and seen == wanted
    return int(seen) >= int(wanted)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdigit()
