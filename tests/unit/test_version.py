"""The version is the one of the installed distribution."""

from __future__ import annotations

from importlib import metadata

from gcushare._version import __version__, read_version


def test_the_version_is_that_of_the_distribution() -> None:
    assert __version__ == metadata.version("gcushare")


def test_a_tree_that_is_not_installed_has_a_version_that_says_so() -> None:
    assert read_version("no-such-distribution-of-gcushare") == "0+unknown"
