"""Which pod a call is for, and which ids or whole cards are chosen: right for every pod that it may be for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import pytest

from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.matching import Candidate, has_room, match, order_candidates
from gcushare.core.requests import CardRequest, CardSelection, ContainerKind, ContainerRequest, PodRequest
from gcushare.core.whole_cards import LOOSE
from gcushare.device_plugin.allocation.card_choice import (
    NodeUse,
    choose_card,
    choose_ids,
    choose_whole_cards,
    read_cards,
)
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.pods import CardCounts
from gcushare.vendors import ENFLAME
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import DeviceIds, PreferredRequest, device_ids
from tests.builders import card, pod
from tests.unit.plugin_pods import pod as bound_pod
from tests.unit.plugin_pods import reconcile


def candidate(
    name: str, *amounts: int, cards: tuple[int, ...] = (), per_pod: int = 1, created: str = "", **other: object
) -> Candidate:
    containers = tuple(ContainerRequest(f"c{n}", ContainerKind.APP, units) for n, units in enumerate(amounts))
    request = PodRequest(containers, CardRequest(sum(amounts) // per_pod, per_pod))
    return Candidate(pod(name, created=created), request, cards, **other)  # type: ignore[arg-type]


on_0 = partial(candidate, cards=(0,), assume_time_ns=1)


def whole_candidate(name: str, count: int, *cards: int, assumed: int = 1) -> Candidate:
    containers = (ContainerRequest("c0", ContainerKind.APP, whole_cards=count),)
    return Candidate(pod(name), PodRequest(containers, CardRequest(0, count, whole=True)), cards, assumed)


def names(candidates: list[Candidate]) -> list[str]:
    return [c.pod.name for c in candidates]


def test_only_a_pod_whose_next_container_has_that_size_can_match() -> None:
    pods = [on_0("a", 4), on_0("b", 2, 4), on_0("c", 2, 4, served=1), on_0("d", 4, served=1)]
    assert names(order_candidates(pods, 4)) == ["c", "a"]


def test_a_pod_half_served_comes_first_then_assume_time_then_creation_then_uid() -> None:
    pods = [
        on_0("unassigned", 4, cards=(), assume_time_ns=0, created="2026-01-01T00:00:00Z"),
        on_0("later", 4, assume_time_ns=9),
        on_0("b", 4, assume_time_ns=5, created="2026-01-01T00:00:02Z"),
        on_0("a", 4, assume_time_ns=5, created="2026-01-01T00:00:02Z"),
        on_0("older", 4, assume_time_ns=5, created="2026-01-01T00:00:01Z"),
        on_0("half", 1, 4, assume_time_ns=20, served=1),
    ]
    assert names(order_candidates(pods, 4)) == ["half", "older", "a", "b", "later", "unassigned"]


FIRST, SECOND = on_0("first", 4, cards=(0,), assume_time_ns=1), on_0("second", 4, cards=(1,), assume_time_ns=2)
HALF = on_0("half", 1, 4, served=1)
DISPLACED, FORGOTTEN = replace(FIRST, is_displaced=True), replace(FIRST, is_forgotten=True)


@pytest.mark.parametrize(
    ("candidates", "free", "taken"),
    [
        pytest.param([FIRST, SECOND], {0: 4, 1: 8}, FIRST, id="the first, with room"),
        pytest.param([FIRST, SECOND], {0: 3, 1: 8}, SECOND, id="the one whose card has room"),
        pytest.param([FIRST, SECOND], {1: 4}, SECOND, id="no ids of the first one's card are known to be free"),
        pytest.param([FIRST, SECOND], {0: 3, 1: 3}, FIRST, id="the first, if none has room"),
        pytest.param([HALF, SECOND], {0: 0, 1: 8}, HALF, id="one half served, even if its card is full"),
        pytest.param([DISPLACED, SECOND], {0: 16, 1: 4}, SECOND, id="not one whose room was handed out already"),
        pytest.param([DISPLACED, SECOND], {0: 16, 1: 3}, DISPLACED, id="unless none has room"),
        pytest.param([FORGOTTEN, SECOND], {0: 16, 1: 4}, SECOND, id="not one that the kubelet forgot"),
        pytest.param([FORGOTTEN, SECOND], {0: 16, 1: 3}, SECOND, id="what is free on its card is not for the other"),
        pytest.param([FORGOTTEN, on_0("larger", 8)], {0: 16}, FORGOTTEN, id="unless no other can be"),
        pytest.param([on_0("larger", 8)], {0: 16}, None, id="no one asks for that size"),
    ],
)
def test_a_call_for_4_units_is_for(candidates: list[Candidate], free: dict[int, int], taken: Candidate | None) -> None:
    assert match(candidates, 4, free) is taken


def test_room_is_asked_of_every_recorded_card_and_of_none_of_a_pod_half_served() -> None:
    assert has_room(on_0("a", 4), 4, {0: 4})
    assert not has_room(on_0("a", 4), 4, {0: 3})
    assert not has_room(on_0("a", 4), 4, {1: 4})
    assert not has_room(on_0("a", 4, cards=()), 4, {0: 4})
    assert has_room(on_0("a", 4, 4, served=1), 4, {})
    assert not has_room(on_0("a", 4, 4), 4, {0: 7}), "not for the pod's second container"
    assert has_room(on_0("a", 4, 4), 4, {0: 8})


def test_whole_cards_have_room_if_as_many_of_the_pods_own_are_free() -> None:
    pair = whole_candidate("pair", 2, 1, 3)
    assert has_room(pair, 2, {1: 1, 3: 1})
    assert has_room(pair, 1, {3: 1}), "a container may be given some of its pod's cards"
    assert not has_room(pair, 2, {0: 1, 3: 1})
    assert not has_room(replace(pair, is_displaced=True), 2, {1: 1, 3: 1})
    assert match([pair], 4, {}) is None
    assert match([pair], 2, {}) is None, "memory was not requested"
    assert match([pair], 2, {}, whole=True) is pair


def test_after_a_restart_one_change_of_places_makes_way_for_the_next() -> None:
    """Three of four pods got each other's cards, and nothing of it was written before the plugin ended."""
    store = PodStore(ENFLAME)
    for name, index in (("p1", 1), ("p2", 1), ("p3", 0), ("p4", 0)):
        store.pod_applied(bound_pod(name, 4, card=index))
    reconcile(store, {f"d/{name}": {"c0": {index: 4}} for name, index in (("p1", 0), ("p3", 1), ("p4", 0))})
    assert (store.held_units(), store.promised()) == ({0: 8, 1: 4}, {1: 4})


CARDS = {index: card(index, model="S60") for index in range(4)}
NOTHING: Mapping[int, int] = {}
FREE: Mapping[int, int] = dict.fromkeys(range(3), 16)


def ask(size: int, free: Mapping[int, int] = FREE, *, must: Iterable[str] = ()) -> PreferredRequest:
    """GetPreferredAllocation for ``size`` units, of cards with so many free ones."""
    ids = {each for index, count in free.items() for each in device_ids_of_card(index, 16)[16 - count :]}
    return PreferredRequest(device_ids(sorted(ids.union(must))), device_ids(list(must)), size)


def chosen(
    request: PreferredRequest, *candidates: Candidate, promised: Mapping[int, int] = NOTHING, begun: Iterable[int] = ()
) -> CardCounts:
    found = choose_ids(request, candidates, promised, CARDS, begun=set(begun))
    return DeviceIds(b"".join(found.entries)).count_by_card()


TWO = candidate("two", 8, cards=(0, 2), per_pod=2)
GOES_ON = candidate("p", 4, 6, cards=(0, 1), per_pod=2, served=1, held={0: 2, 1: 2})
LEAVES = candidate("leaving", 4, cards=(0, 1), per_pod=2, is_ending=True)
NEEDS_0, AVOIDS_0 = CardSelection(("0",)), CardSelection((), ("0",))


@pytest.mark.parametrize(
    ("request_", "candidates", "promised", "expected"),
    [
        pytest.param(ask(4, {0: 3, 1: 6, 2: 16}), [candidate("a", 4)], {}, {1: 4}, id="the fullest that fits"),
        pytest.param(
            ask(4, {0: 3, 1: 6, 2: 8}), [candidate("a", 4, cards=(0,))], {0: 4, 1: 6}, {2: 4}, id="one not promised"
        ),
        pytest.param(
            ask(6, {1: 7, 2: 10}), [candidate("a", 6, cards=(2, 0))], {1: 5, 2: 6}, {2: 6}, id="promised to it"
        ),
        pytest.param(ask(4, {0: 6, 1: 10, 2: 16}), [candidate("a", 4, 4)], {}, {1: 4}, id="room for all containers"),
        pytest.param(ask(4, {0: 6, 1: 10, 2: 16}), [candidate("a", 4, 4)], {1: 3}, {2: 4}, id="and for promises"),
        pytest.param(ask(4, {0: 6, 1: 5, 2: 3}), [candidate("a", 4, 4)], {}, {1: 4}, id="or for this one alone"),
        pytest.param(ask(8), [TWO], {}, {0: 4, 2: 4}, id="two cards equally"),
        pytest.param(ask(8, {0: 1, 1: 16, 2: 16}), [TWO], {}, {1: 4, 2: 4}, id="two others equally"),
        pytest.param(ask(6, must=device_ids_of_card(0, 2)), [GOES_ON], {}, {0: 4, 1: 2}, id="then it has 4 of each"),
        pytest.param(
            ask(4),
            [candidate("free", 4, cards=(1,)), candidate("first", 4, cards=(0,), selection=NEEDS_0)],
            {},
            {0: 4},
            id="a card that all allow",
        ),
        pytest.param(ask(4), [candidate("x", 4, cards=(0,), selection=AVOIDS_0)], {}, {1: 4}, id="none that it avoids"),
        pytest.param(ask(4), [LEAVES, candidate("one", 4, cards=(2,))], {}, {2: 4}, id="not for a pod that ends"),
        pytest.param(ask(4), [LEAVES], {}, {0: 2, 1: 2}, id="unless it is the only one"),
    ],
)
def test_the_card_is_chosen(
    request_: PreferredRequest, candidates: list[Candidate], promised: Mapping[int, int], expected: CardCounts
) -> None:
    assert chosen(request_, *candidates, promised=promised) == expected


@pytest.mark.parametrize(
    ("request_", "candidates", "words"),
    [
        pytest.param(
            ask(9, {0: 3, 1: 6, 2: 8}),
            [candidate("a", 9, cards=(0,))],
            r"no card of this node has 9 free units \(card 0: 3 of 16, card 1: 6 of 16, card 2",
            id="no card fits",
        ),
        pytest.param(
            ask(4),
            [candidate(name, 4, selection=CardSelection((index,))) for name, index in (("one", "0"), ("other", "1"))],
            r"not allowed by the pod's annotations.*which of default/one, default/other it is for",
            id="pods that exclude each other's cards",
        ),
        pytest.param(
            ask(4),
            [candidate("one", 4, cards=(0,)), candidate("two", 4, cards=(0, 1), per_pod=2)],
            r"which of default/one, default/two asks for 4 units",
            id="pods over one card and over two",
        ),
    ],
)
def test_where_no_card_is_right_the_refusal_names_cards_or_pods(
    request_: PreferredRequest, candidates: list[Candidate], words: str
) -> None:
    with pytest.raises(Refused, match=words):
        chosen(request_, *candidates)


@pytest.mark.parametrize(("amounts", "per_pod"), [((4, 6), 1), ((4, 16), 2), ((4, 4, 4), 1), ((4, 2, 12), 2)])
def test_a_card_with_room_for_the_first_container_alone_is_left_to_the_equal_pod_that_got_it(
    amounts: tuple[int, ...], per_pod: int
) -> None:
    """Pods of equal requests start together, and the first one admitted got the cards of the second one's record."""
    own, elsewhere = ((0,), (2,)) if per_pod == 1 else ((0, 1), (2, 3))
    second = candidate("b", *amounts, cards=own, per_pod=per_pod)
    request = ask(amounts[0], dict.fromkeys(own, 16 - sum(amounts) // per_pod) | dict.fromkeys(elsewhere, 16))
    assert chosen(request, second) == dict.fromkeys(elsewhere, amounts[0] // per_pod)
    taken = dict.fromkeys(elsewhere, 16)
    assert chosen(request, second, promised=taken) == dict.fromkeys(own, amounts[0] // per_pod), "promised to others"


@pytest.mark.parametrize(("first", "later"), [(4, (4,)), (4, (2, 2)), (1, (9, 1))])
@pytest.mark.parametrize("free", [{0: 6, 1: 16}, {0: 16, 1: 16}, {0: 16, 1: 15, 2: 14}])
def test_containers_of_a_pod_that_is_not_known_follow_each_other(
    first: int, later: tuple[int, ...], free: dict[int, int]
) -> None:
    (begun,) = chosen(ask(first, free))
    left = {**free, begun: free[begun] - first}
    for amount in later:
        assert chosen(ask(amount, left), begun={begun}) == {begun: amount}
        left[begun] -= amount


def test_ids_that_must_be_included_decide_the_card_and_are_in_the_answer() -> None:
    must = device_ids_of_card(1, 2)
    found = choose_ids(ask(5, {0: 16, 1: 10}, must=must), [candidate("a", 5, cards=(0,))], {}, CARDS)
    ids = DeviceIds(b"".join(found.entries))
    assert (ids.count_by_card(), len(set(found.entries))) == ({1: 5}, 5)
    assert set(must) <= set(ids.text())


def test_a_card_without_a_promise_on_it_comes_first_then_the_fullest_then_the_lowest() -> None:
    assert choose_card({0: 8, 1: 4, 2: 4}, {}, 4, 4) == 1
    assert choose_card({0: 8, 1: 4}, {1: 1}, 4, 4) == 0
    assert choose_card({0: 8, 1: 4}, {0: 4, 1: 1}, 4, 4) == 0
    assert choose_card({0: 8, 1: 4}, {0: 5, 1: 1}, 4, 4) == 1
    assert choose_card({0: 3}, {}, 4, None) is None
    assert choose_card({0: 8, 1: 9}, {1: 6}, 4, None, begun={1}) == 0


ALL_FREE = (0, 1, 2, 3)


def node(*numa: int | None, shared: tuple[int, ...] = (), promised: dict[int, str] | None = None) -> NodeUse:
    places = numa or (None,) * 4
    cards = {index: card(index, numa_node=place) for index, place in enumerate(places)}
    return NodeUse(cards, frozenset(shared), promised or {})


def test_of_two_pods_that_ask_for_as_many_the_one_whose_cards_are_free_is_matched() -> None:
    waiting = [whole_candidate("a", 1, 0, assumed=1), whole_candidate("b", 1, 2, assumed=2)]
    choice = choose_whole_cards(1, (1, 2), waiting, node())
    assert choice.card_indexes == (2,)
    assert choice.candidate is not None
    assert choice.candidate.pod.name == "b"


def test_a_card_in_shared_use_is_not_given_even_if_the_kubelet_still_offers_it() -> None:
    choice = choose_whole_cards(1, ALL_FREE, [whole_candidate("a", 1, 0)], node(shared=(0,)))
    assert choice.card_indexes == (1,)
    assert choice.moved_from == (0,)


def test_cards_kept_for_others_are_left_to_them_as_long_as_others_are_free() -> None:
    kept = {0: "uid-b", 1: ""}
    assert choose_whole_cards(1, ALL_FREE, [], node(promised=kept)).card_indexes == (2,)
    assert choose_whole_cards(3, ALL_FREE, [], node(promised=kept)).card_indexes == (0, 1, 2)


def test_without_a_record_several_cards_are_chosen_close_together() -> None:
    assert choose_whole_cards(2, ALL_FREE, [], node(0, 1, 1, 0)).card_indexes == (0, 3)
    assert choose_whole_cards(2, (0, 1, 2), [], node(0, 1, 1, 0)).card_indexes == (1, 2)


def test_a_pod_that_wants_loose_cards_gets_the_odd_ones_and_keeps_its_own() -> None:
    def loose(*cards: int) -> Candidate:
        found = whole_candidate("a", 2, *cards)
        request = replace(found.request, cards=CardRequest(0, 2, whole=True, whole_policy=LOOSE))
        return replace(found, request=request)

    use = node(0, 0, 1, 2)
    assert choose_whole_cards(2, ALL_FREE, [whole_candidate("a", 2)], use).card_indexes == (0, 1)
    assert choose_whole_cards(2, ALL_FREE, [loose()], use).card_indexes == (2, 3)
    assert choose_whole_cards(2, ALL_FREE, [loose(3, 7)], use).card_indexes == (2, 3)


def test_a_card_that_takes_no_pods_is_described_and_the_advice_is_complete() -> None:
    cards = {0: card(0, cordoned=True), 1: card(1)}
    text = (
        r"^2 whole cards wanted, 0 free on this node \(card 0: not taking pods, card 1: in use or not healthy\); the "
    )
    with pytest.raises(Refused, match=text + "pod must be scheduled again$"):
        choose_whole_cards(2, (), [], NodeUse(cards))
    with pytest.raises(Refused, match=r"\(it has no cards\)"):
        choose_whole_cards(1, (), [], NodeUse({}))
    with pytest.raises(Refused, match=r"1 whole card wanted, 0 free on this node \(card 0: shared, card 1: in use"):
        choose_whole_cards(1, (0,), [whole_candidate("a", 1, 0)], node(None, None, shared=(0,)))


def test_ids_are_read_as_cards_and_those_of_memory_or_of_other_plugins_are_refused() -> None:
    assert read_cards(device_ids(["card-2", "card-0"])) == (0, 2)
    text = r"names a unit of memory, .*: two plugins or releases seem to have registered the same resource$"
    with pytest.raises(RemoteContractError, match=text):
        read_cards(device_ids(device_ids_of_card(0, 1)))
    with pytest.raises(RemoteContractError, match="NVIDIA's device plugin"):
        read_cards(device_ids(["GPU-1234"]))
