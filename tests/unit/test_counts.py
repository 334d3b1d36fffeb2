"""A number and what it counts agree in every message: 1 pod, 2 pods."""

from __future__ import annotations

import pytest

from gcushare.core.wording import counted


@pytest.mark.parametrize(
    ("number", "shown"), [(0, "0 pods wait"), (1, "1 pod waits"), (2, "2 pods wait"), (21, "21 pods wait")]
)
def test_a_count_has_its_noun_and_its_verb(number: int, shown: str) -> None:
    assert counted(number, "pod", "wait") == shown
