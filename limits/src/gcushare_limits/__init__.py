"""Keeps frameworks within the card memory that GCUShare granted this container: ``import gcushare_limits`` comes first.

Importing it sets what frameworks read from the environment, and has the others configured when they are imported.
Nothing happens outside of a container that was granted memory, and what its author set already stays. It is a help for
programs that mean well: a process can undo it, and what a framework allocates beside its own pool is not counted.
"""

from __future__ import annotations

from gcushare_limits.frameworks import apply
from gcushare_limits.grant import Grant, read_grant

__all__ = ["Grant", "applied", "fraction", "grant", "memory_bytes"]

grant: Grant | None = read_grant()
"""What this container was granted of each of its cards; None where that is nothing, or a whole card."""
applied: tuple[str, ...] = apply(grant) if grant is not None else ()
"""The frameworks that are limited, now or when they are imported."""


def fraction() -> float:
    """The part of each card's memory that this container was granted; 1.0 without a grant of memory."""
    return grant.fraction if grant is not None else 1.0


def memory_bytes() -> int | None:
    """The bytes granted of each card; None without a grant of memory."""
    return grant.bytes_per_card if grant is not None else None
