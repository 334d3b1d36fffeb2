import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.topology import CardPlace, choose_close_cards, spread_over_numa

EIGHT_ON_TWO = [CardPlace(index, index // 4, "ab"[index // 2 % 2]) for index in range(8)]


@pytest.mark.parametrize(
    ("free", "count", "chosen"),
    [
        pytest.param(range(8), 1, (0,), id="one card: the lowest of the tightest groups"),
        pytest.param(range(8), 2, (0, 1), id="two cards with a link between them"),
        pytest.param((1, 2, 3, 5), 2, (2, 3), id="a link is worth more than a low index"),
        pytest.param(range(8), 3, (0, 1, 2), id="three cards of one NUMA node"),
        pytest.param((0, 1, 2, 4, 5, 6, 7), 3, (0, 1, 2), id="the tighter NUMA node is used up first"),
        pytest.param((0, 4, 5, 6), 4, (0, 4, 5, 6), id="over NUMA nodes only where none has enough"),
        pytest.param(range(8), 8, tuple(range(8)), id="all"),
        pytest.param((0, 1), 3, None, id="too few"),
    ],
)
def test_several_cards_are_chosen_close_together(
    free: tuple[int, ...], count: int, chosen: tuple[int, ...] | None
) -> None:
    assert choose_close_cards([EIGHT_ON_TWO[index] for index in free], count) == chosen


def test_where_the_machine_tells_nothing_the_lowest_indexes_are_taken() -> None:
    assert choose_close_cards([CardPlace(index) for index in (5, 3, 1)], 2) == (1, 3)


@given(
    st.lists(
        st.builds(CardPlace, st.integers(0, 15), st.none() | st.integers(0, 1), st.sampled_from(["", "a", "b"])),
        max_size=8,
        unique_by=lambda place: place.index,
    ),
    st.integers(1, 8),
)
def test_no_other_choice_touches_fewer_numa_nodes(places: list[CardPlace], count: int) -> None:
    chosen = choose_close_cards(places, count)
    if chosen is None:
        assert len(places) < count
        return
    by_index = {place.index: place for place in places}
    assert len(set(chosen)) == count
    best = min(spread_over_numa(combination) for combination in itertools.combinations(places, count))
    assert spread_over_numa(by_index[index] for index in chosen) == best
