"""How much of a shared claim each of its pods may use."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gcushare.node.driver_limits.pod_amounts import divide


@given(size=st.integers(0, 64), needs=st.dictionaries(st.sampled_from("abcdef"), st.integers(-9, 99), min_size=1))
def test_pods_that_share_have_all_of_it_and_who_uses_more_than_its_part_keeps_it_as_far_as_it_goes(
    size: int, needs: dict[str, int]
) -> None:
    parts = divide(size, needs)
    assert sum(parts.values()) == size
    assert all(part >= 0 for part in parts.values())
    if sum(max(0, need) for need in needs.values()) <= size:
        assert all(parts[each] >= need for each, need in needs.items())


def test_pods_that_use_no_more_than_their_part_have_equal_parts() -> None:
    assert divide(8, {"a": 2, "b": 0, "c": 1, "d": 2}) == dict.fromkeys("abcd", 2)
    assert divide(8, {"a": 6, "b": 0, "c": 1}) == {"a": 6, "b": 1, "c": 1}
    assert divide(8, {"a": 8, "b": 0}) == {"a": 8, "b": 0}
