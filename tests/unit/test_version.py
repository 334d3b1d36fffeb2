"""The version is the one of the installed distribution."""

from __future__ import annotations

from importlib import metadata

from gcushare._version import __version__


def test_the_version_is_that_of_the_distribution() -> None:
    assert __version__ == metadata.version("gcushare")
