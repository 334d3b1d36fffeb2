"""The most that a pod has used of a card, by the readings since it was seen first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.node.highest_use import HighestUse, HighestUses
from gcushare.node.pod_use import PodUse

USED = st.dictionaries(st.integers(0, 2), st.integers(0, 100), max_size=3)


@pytest.mark.slow
@given(st.lists(st.none() | USED, min_size=1, max_size=12))
def test_it_is_the_largest_reading_of_each_card_and_counts_from_the_first_one(
    readings: list[dict[int, int] | None],
) -> None:
    kept = HighestUses()
    for at, reading in enumerate(readings):
        kept.take(None if reading is None else PodUse({"a": reading}, {}), {"a"}, float(at))
    known = [each for each in readings if each is not None]
    if not known:
        assert kept.by_pod == {}
        return
    most = {index: max(each.get(index, 0) for each in known) for each in known for index in each}
    assert kept.by_pod["a"].bytes == most
    assert kept.by_pod["a"].since == readings.index(known[0])


def test_a_pod_that_is_gone_is_forgotten_and_one_of_the_same_uid_begins_again() -> None:
    kept = HighestUses()
    kept.take(PodUse({"a": {0: 7}}, {}), {"a", "uses nothing"}, 1.0)
    assert kept.by_pod["uses nothing"] == HighestUse({}, 1.0)
    kept.take(PodUse({"a": {0: 9}}, {}), (), 2.0)
    kept.take(PodUse({"a": {0: 3}}, {}), {"a"}, 3.0)
    assert kept.by_pod == {"a": HighestUse({0: 3}, 3.0)}
