"""What sockets between the kubelet and a program of a node have in common."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

PROBE_TIMEOUT_S = 0.5
"""Below the time that a health check may take; a socket that is not served answers at once."""

CHANNEL_OPTIONS = (
    # A new server may listen on the same path: no connection, and no back-off, of an earlier call is used again.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
)

Identity: TypeAlias = tuple[int, int] | None
"""Distinguishes a socket file from a later one of the same name: inode and change time; None if there is none."""


def find_identity(path: Path) -> Identity:
    """``stat`` a socket: right on file systems without notifications too."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns
