"""Limits frameworks to the card memory that GCUShare granted this container. Import it before the frameworks.

The import sets the environment variables that frameworks read, and configures other frameworks when they are imported.
It does nothing outside a container with granted memory, and keeps values that are already set. It does not enforce the
limit: a process can undo it, and memory that a framework allocates outside its own pool is not counted.
"""

from __future__ import annotations

from gcushare_limits.frameworks import apply
from gcushare_limits.grant import Grant, read_grant

__all__ = ["Grant", "applied", "fraction", "grant", "memory_bytes"]

grant: Grant | None = read_grant()
"""What this container was granted of each of its cards; None without a grant, or with whole cards."""
applied: tuple[str, ...] = apply(grant) if grant is not None else ()
"""The frameworks that are limited, now or when they are imported."""


def fraction() -> float:
    """The part of each card's memory that this container was granted; 1.0 without a grant of memory."""
    return grant.fraction if grant is not None else 1.0


def memory_bytes() -> int | None:
    """The bytes granted of each card; None without a grant of memory."""
    return grant.bytes_per_card if grant is not None else None
