import itertools
from collections.abc import Callable, Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.cards import Card
from gcushare.core.whole_cards import Rank, choose_close_cards, choose_loose_cards, closeness


def card(index: int, numa_node: int | None = None, link_group: str = "") -> Card:
    return Card(index=index, uuid=f"u{index}", memory_bytes=1, numa_node=numa_node, link_group=link_group)


EIGHT_ON_TWO = [card(index, index // 4, "ab"[index // 2 % 2]) for index in range(8)]


def numa_nodes_of(cards: Iterable[Card]) -> int:
    return len({card.numa_node for card in cards})


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
    assert choose_close_cards([card(index) for index in (5, 3, 1)], 2) == (1, 3)


@pytest.mark.parametrize(
    ("free", "count", "chosen"),
    [
        pytest.param((0, 1, 2, 4, 5), 1, (2,), id="one card: the odd one"),
        pytest.param((0, 1, 2, 3, 4, 6), 2, (4, 6), id="two odd cards leave the pairs to others"),
        pytest.param((0, 1, 2, 4, 5), 2, (2, 4), id="a pair is broken only where the odd ones are too few"),
        pytest.param((0, 1), 3, None, id="too few"),
        pytest.param((0, 1), 0, None, id="none at all"),
    ],
)
def test_loose_cards_spare_the_tight_groups(free: tuple[int, ...], count: int, chosen: tuple[int, ...] | None) -> None:
    assert choose_loose_cards([EIGHT_ON_TWO[index] for index in free], count) == chosen


@pytest.mark.parametrize("choose", [choose_close_cards, choose_loose_cards])
def test_among_equally_close_cards_the_rank_decides(
    choose: Callable[[Sequence[Card], int, Rank], tuple[int, ...] | None],
) -> None:
    assert choose([card(index) for index in range(3)], 2, lambda card: ((3, 1, 2)[card.index],)) == (1, 2)


@pytest.mark.parametrize(("free", "level"), [((0, 1), 2), ((0, 2), 1), ((0, 4), 0), ((0,), 0)])
def test_closeness_says_how_near_two_cards_can_be(free: tuple[int, ...], level: int) -> None:
    assert closeness([EIGHT_ON_TWO[index] for index in free], 2) == level


UNLINKED_FIRST = [card(0, 0), card(1, 0), card(2, 0, "a"), card(3, 0, "a"), card(4, 0)]


def test_linked_cards_go_before_cards_of_which_no_link_is_reported() -> None:
    assert choose_close_cards(UNLINKED_FIRST, 2) == (2, 3)
    assert choose_close_cards(UNLINKED_FIRST, 1) == (0,)
    assert choose_close_cards(UNLINKED_FIRST, 3) == (0, 1, 2)
    assert choose_loose_cards(UNLINKED_FIRST, 3) == (0, 1, 4)
    assert [closeness(part, 2) for part in (UNLINKED_FIRST, UNLINKED_FIRST[:2])] == [2, 1]


@given(
    st.lists(
        st.builds(card, st.integers(0, 15), st.none() | st.integers(0, 1), st.sampled_from(["", "a", "b"])),
        max_size=8,
        unique_by=lambda place: place.index,
    ),
    st.integers(1, 8),
)
def test_no_other_choice_touches_fewer_numa_nodes(places: list[Card], count: int) -> None:
    chosen = choose_close_cards(places, count)
    if chosen is None:
        assert len(places) < count
        return
    by_index = {place.index: place for place in places}
    assert len(set(chosen)) == count
    best = min(numa_nodes_of(combination) for combination in itertools.combinations(places, count))
    assert numa_nodes_of(by_index[index] for index in chosen) == best
