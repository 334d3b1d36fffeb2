"""Which node and which of its cards a request gets, and what a request is."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.core.card_state import CardState
from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE, Card, InventoryCard
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES, choose_cards
from gcushare.core.requests import (
    CardRequest,
    CardSelection,
    ContainerKind,
    ContainerResources,
    PodRequest,
    effective_request,
    parse_pod_request,
)
from gcushare.core.whole_cards import Rank, choose_close_cards, choose_loose_cards, closeness
from gcushare.vendors import VENDORS
from tests.builders import GIB_UNIT, asks, asks_whole, card, cards, held, present


def node(offered: list[InventoryCard], *grants: tuple[int, int], modes: Sequence[str] = BOTH_MODES) -> NodeState:
    """A node with these cards, and pods that hold units of them, or the cards where it serves nothing else."""
    state = NodeState("n")
    state.set_cards(offered, GIB_UNIT, modes)
    for number, grant in enumerate(grants):
        state.add(held(f"p{number}", "n", grant, whole=modes == (SERVES_WHOLE,)))
    return state


def chosen(state: NodeState, request: CardRequest, policy: str) -> list[int] | None:
    states = choose_cards(state, request, POLICIES[policy].rank_card)
    return None if states is None else [s.index for s in states]


LOOSE = replace(asks_whole(2), whole_policy="loose")


def choosy(model: str) -> CardRequest:
    return CardRequest(4, selection=CardSelection(use=(model,)))


def linked(groups: str) -> list[InventoryCard]:
    """Cards of 16 in the link groups that the letters name; a dot is a card without a link, alone on its NUMA node."""
    made = []
    for index, group in enumerate(groups):
        place = {"numa_node": index} if group == "." else {"numa_node": 100, "link_group": group}
        made.append(msgspec.structs.replace(card(index), **place))
    return made


FOUR = node(cards(16, 16, 16, 16), (0, 8), (1, 12))
OUT_OF_USE = node([card(0, sick=True), card(1, cordoned=True), card(2)])
MODELS = node([card(0, model="S60"), card(1, model="T20")])
UNEQUAL = node([card(0, 32), card(1, 16), card(2, 24)])


@pytest.mark.parametrize(
    ("policy", "state", "request_", "expected"),
    [
        pytest.param("binpack", FOUR, asks(4), [1], id="binpack takes the fullest card that fits"),
        pytest.param("binpack", FOUR, asks(5), [0], id="and the next fullest when that is too full"),
        pytest.param("binpack", FOUR, asks(16), [2], id="and the lowest index among equals"),
        pytest.param("binpack", node([card(0, 8), card(1, 16)], (1, 8)), asks(4), [1], id="and leaves an empty one"),
        pytest.param("binpack", FOUR, asks(4, cards=2), [0, 1], id="several cards likewise"),
        pytest.param("binpack", FOUR, asks_whole(2), [2, 3], id="whole cards are empty ones"),
        pytest.param("binpack", FOUR, asks_whole(3), None, id="no three cards are empty"),
        pytest.param("spread", FOUR, asks(4), [2], id="spread takes the emptiest"),
        pytest.param("spread", FOUR, asks(17), None, id="nothing holds more than one card"),
        pytest.param("binpack", OUT_OF_USE, asks(4), [2], id="not a sick or cordoned card"),
        pytest.param("binpack", OUT_OF_USE, asks_whole(2), None, id="no sick or cordoned card whole"),
        pytest.param("binpack", MODELS, choosy("T20"), [1], id="a card that a choosy pod allows"),
        pytest.param("binpack", MODELS, choosy("T21"), None, id="none that it allows"),
        pytest.param("binpack", node(linked("a.bb.a")), asks_whole(2), [0, 5], id="whole cards close together"),
        pytest.param("binpack", node(linked("a.bb.a")), LOOSE, [1, 4], id="or so that groups are spared"),
        pytest.param("binpack", UNEQUAL, asks_whole(), [1], id="of equally close ones the smallest"),
        pytest.param("binpack", UNEQUAL, asks_whole(2), [1, 2], id="and the two smallest"),
        pytest.param("spread", UNEQUAL, asks_whole(2), [0, 2], id="with spread the largest"),
    ],
)
def test_the_cards_are_those_that_the_policy_prefers(
    policy: str, state: NodeState, request_: CardRequest, expected: list[int] | None
) -> None:
    assert chosen(state, request_, policy) == expected


@pytest.mark.parametrize("name", ["binpack", "spread"])
def test_the_node_where_several_whole_cards_are_close_is_preferred(name: str) -> None:
    apart, near, linked_pair = node(linked("..")), node(linked("ab")), node(linked("aa"))
    worth = [POLICIES[name].score_node(state, asks_whole(2)) for state in (apart, near, linked_pair)]
    assert worth == sorted(worth)
    assert len(set(worth)) == 3
    assert len({POLICIES[name].score_node(state, LOOSE) for state in (apart, near, linked_pair)}) == 1


TWO = cards(16, 16)


@pytest.mark.parametrize(
    ("policy", "state", "request_", "score"),
    [
        pytest.param("binpack", node(TWO, (0, 4)), asks(4), 0.5625, id="next to others"),
        pytest.param("binpack", node(TWO, (0, 4)), asks(12), 0.5625, id="just next to others"),
        pytest.param("binpack", node(TWO, (0, 4)), asks(13), 0.03125, id="opens a card that could be given whole"),
        pytest.param("binpack", node(TWO, (0, 4), modes=(SERVES_MEMORY,)), asks(13), 0.28125, id="opens one that not"),
        pytest.param("binpack", node(TWO, (0, 4)), asks(4, 4), 0.03125 / 3, id="several cards are one sum"),
        pytest.param("binpack", node(TWO, (0, 40)), asks(4), 0.25, id="no fuller than full"),
        pytest.param("binpack", node(TWO, (0, 4)), asks_whole(), 0.0625, id="whole"),
        pytest.param("binpack", node(TWO, (0, 16), modes=(SERVES_WHOLE,)), asks_whole(), 0.75, id="whole only"),
        pytest.param("binpack", node(TWO), asks_whole(2), 1 / 3, id="several whole, one NUMA node"),
        pytest.param("binpack", node([]), asks_whole(), 0.0, id="no cards"),
        pytest.param("spread", node(TWO, (0, 4)), asks(4), 0.875, id="spread"),
        pytest.param("spread", node(TWO, (0, 40)), asks(4), 0.0, id="spread, overfull"),
        pytest.param("spread", node([]), asks(4), 0.0, id="spread, no cards"),
        pytest.param("spread", node(TWO), asks_whole(2), 2 / 3, id="spread, several whole"),
    ],
)
def test_a_nodes_score_is_the_one_that_its_policy_states(
    policy: str, state: NodeState, request_: CardRequest, score: float
) -> None:
    assert POLICIES[policy].score_node(state, request_) == pytest.approx(score)


def test_cards_are_ranked_for_the_request_that_is_placed() -> None:
    def far_for_large(state: CardState, request: CardRequest) -> tuple[int, ...]:
        return (state.index if request.units < 8 else -state.index,)

    state = node(cards(16, 16, 16))
    for request, index in ((asks(4), 0), (asks(8), 2)):
        assert [state.index for state in present(choose_cards(state, request, far_for_large))] == [index]


def on_numa(index: int, numa_node: int | None = None, link_group: str = "") -> Card:
    return Card(index=index, uuid=f"u{index}", memory_bytes=1, numa_node=numa_node, link_group=link_group)


EIGHT_ON_TWO = [on_numa(index, index // 4, "ab"[index // 2 % 2]) for index in range(8)]


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
    assert choose_close_cards([on_numa(index) for index in (5, 3, 1)], 2) == (1, 3)


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
    assert choose([on_numa(index) for index in range(3)], 2, lambda card: ((3, 1, 2)[card.index],)) == (1, 2)


@pytest.mark.parametrize(("free", "level"), [((0, 1), 2), ((0, 2), 1), ((0, 4), 0), ((0,), 0)])
def test_closeness_says_how_near_two_cards_can_be(free: tuple[int, ...], level: int) -> None:
    assert closeness([EIGHT_ON_TWO[index] for index in free], 2) == level


UNLINKED_FIRST = [on_numa(0, 0), on_numa(1, 0), on_numa(2, 0, "a"), on_numa(3, 0, "a"), on_numa(4, 0)]


def test_linked_cards_go_before_cards_of_which_no_link_is_reported() -> None:
    assert choose_close_cards(UNLINKED_FIRST, 2) == (2, 3)
    assert choose_close_cards(UNLINKED_FIRST, 1) == (0,)
    assert choose_close_cards(UNLINKED_FIRST, 3) == (0, 1, 2)
    assert choose_loose_cards(UNLINKED_FIRST, 3) == (0, 1, 4)
    assert [closeness(part, 2) for part in (UNLINKED_FIRST, UNLINKED_FIRST[:2])] == [2, 1]


@given(
    st.lists(
        st.builds(on_numa, st.integers(0, 15), st.none() | st.integers(0, 1), st.sampled_from(["", "a", "b"])),
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


NAMES = replace(VENDORS[0], memory_resource="v.io/mem", count_resource="v.io/count", whole_card_resource="v.io/card")
APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR


def container(name: str = "app", kind: ContainerKind = APP, **limits: object) -> ContainerResources:
    return ContainerResources(name, kind, {f"v.io/{key}": value for key, value in limits.items()}, {})


def parsed(*containers: ContainerResources, cards: int = 1) -> PodRequest:
    return present(parse_pod_request(containers, NAMES, cards_per_pod=cards))


@pytest.mark.parametrize(
    ("amounts", "effective"),
    [
        pytest.param([(APP, 4), (APP, 2)], 6, id="app containers add up"),
        pytest.param([(INIT, 8), (INIT, 3), (APP, 4)], 8, id="init containers run alone"),
        pytest.param([(SIDECAR, 2), (APP, 4)], 6, id="a sidecar stays"),
        pytest.param([(SIDECAR, 2), (INIT, 5), (APP, 4)], 7, id="an init container runs with earlier sidecars"),
        pytest.param([(INIT, 5), (SIDECAR, 2), (APP, 1)], 5, id="a later sidecar does not burden an earlier init"),
        pytest.param([], 0, id="nothing"),
    ],
)
def test_the_effective_request_follows_kubernetes(amounts: list[tuple[ContainerKind, int]], effective: int) -> None:
    assert effective_request(amounts) == effective


def test_a_pod_without_cards_has_no_request() -> None:
    assert parse_pod_request([container(), container(mem=0)], NAMES) is None


def test_units_are_kept_per_container_in_the_order_of_the_pod() -> None:
    request = parsed(container("init", INIT, mem="3"), container("quiet"), container("app", mem=4))
    assert [(c.name, c.units) for c in request.containers] == [("init", 3), ("app", 4)]
    assert request.cards.units == request.total_units == 4


def test_a_count_of_1_is_accepted_together_with_the_memory_and_2_is_refused_by_container_and_value() -> None:
    assert parsed(container(mem=5, count=1)).cards.units == 5
    with pytest.raises(Refused, match=r"container 'app' asks for v\.io/count: 2"):
        parsed(container(mem=5, count=2))


def test_a_bad_quantity_names_container_resource_and_value() -> None:
    with pytest.raises(RemoteContractError, match=r"container 'app': v\.io/mem: quantity '1\.5'"):
        parsed(container(mem="1.5"))


@pytest.mark.parametrize(
    ("limits", "requests"),
    [({"v.io/mem": 4}, {"v.io/mem": 2}), ({}, {"v.io/mem": 2}), ({"v.io/mem": 0}, {"v.io/mem": 2})],
)
def test_limits_must_equal_requests(limits: dict[str, object], requests: dict[str, object]) -> None:
    with pytest.raises(RemoteContractError, match="must be equal"):
        parse_pod_request([ContainerResources("app", APP, limits, requests)], NAMES)


def test_equal_amounts_in_other_spelling_are_equal() -> None:
    spelled = ContainerResources("app", APP, {"v.io/mem": "4"}, {"v.io/mem": "4000m"})
    assert parsed(spelled).cards.units == 4


def test_whole_cards_are_counted_like_memory_and_exclude_it() -> None:
    request = parsed(container("init", INIT, card=1), container(card=2))
    assert (request.cards.whole, request.cards.cards) == (True, 2)
    with pytest.raises(Refused, match="not for both"):
        parsed(container(card=1), container("other", mem=4))


def test_memory_over_several_cards_must_divide() -> None:
    assert parsed(container(mem=8), cards=2).cards.units == 4
    with pytest.raises(Refused, match="2 cards cannot share equally"):
        parsed(container(mem=7), cards=2)


@pytest.mark.parametrize(
    ("selection", "allowed"),
    [
        (CardSelection(), True),
        (CardSelection(use=("3",)), True),
        (CardSelection(use=("uuid-3",)), True),
        (CardSelection(use=("S60",)), True),
        (CardSelection(use=("4",)), False),
        (CardSelection(avoid=("S60",)), False),
        (CardSelection(use=("S60",), avoid=("3",)), False),
    ],
)
def test_a_selection_names_cards_by_index_uuid_or_model(selection: CardSelection, allowed: bool) -> None:
    card = InventoryCard(index=3, uuid="uuid-3", memory_bytes=1, model="S60")
    assert selection.allows(card) is allowed
    assert CardRequest(1, selection=selection).allows(card) is allowed
    assert CardRequest(1).allows(card)
