"""The version of the installed distribution, read from its metadata so that it is written in one place only."""

from __future__ import annotations

from importlib import metadata


def read_version(distribution: str = "gcushare") -> str:
    """Return the installed version; a source tree that was never installed answers ``0+unknown``, which sorts first."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "0+unknown"


__version__ = read_version()
