"""Versions are compared where they are numbers, and said to be reached only when equal where they are not."""

from __future__ import annotations

import pytest

from gcushare.kube.resources import is_at_least


@pytest.mark.parametrize(
    ("seen", "wanted", "reached"),
    [
        pytest.param("100", "100", True, id="equal"),
        pytest.param("101", "100", True, id="newer"),
        pytest.param("99", "100", False, id="older, though greater as text"),
        pytest.param("", "100", False, id="nothing seen"),
        pytest.param("", "", False, id="nothing reported"),
        pytest.param("abc", "abc", True, id="opaque and equal"),
        pytest.param("abd", "abc", False, id="opaque and different"),
        pytest.param("100", "abc", False, id="number against opaque"),
        pytest.param("٢٠٠", "100", False, id="digits of another script"),
    ],
)
def test_a_version_is_reached_or_cannot_be_known(seen: str, wanted: str, reached: bool) -> None:
    assert is_at_least(seen, wanted) is reached
