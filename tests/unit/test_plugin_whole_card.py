"""Which whole cards the plugin gives a container, and what it says where it gives none."""

from dataclasses import replace

import pytest

from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.matching import Candidate
from gcushare.core.requests import CardRequest, ContainerKind, ContainerRequest, PodRequest
from gcushare.core.whole_cards import LOOSE
from gcushare.device_plugin.allocation.card_choice import NodeUse, choose_whole_cards, read_cards
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import device_ids
from tests.builders import card, pod

FREE = (0, 1, 2, 3)


def node(*numa: int | None, shared: tuple[int, ...] = (), promised: dict[int, str] | None = None) -> NodeUse:
    places = numa or (None,) * 4
    cards = {index: card(index, numa_node=place) for index, place in enumerate(places)}
    return NodeUse(cards, frozenset(shared), promised or {})


def candidate(name: str, count: int, *cards: int, assumed: int = 1) -> Candidate:
    containers = (ContainerRequest("c0", ContainerKind.APP, whole_cards=count),)
    return Candidate(pod(name), PodRequest(containers, CardRequest(0, count, whole=True)), cards, assumed)


def test_of_two_pods_that_ask_for_as_many_the_one_whose_cards_are_free_is_matched() -> None:
    waiting = [candidate("a", 1, 0, assumed=1), candidate("b", 1, 2, assumed=2)]
    choice = choose_whole_cards(1, (1, 2), waiting, node())
    assert choice.card_indexes == (2,)
    assert choice.candidate is not None
    assert choice.candidate.pod.name == "b"


def test_a_card_in_shared_use_is_not_given_even_if_the_kubelet_still_offers_it() -> None:
    choice = choose_whole_cards(1, FREE, [candidate("a", 1, 0)], node(shared=(0,)))
    assert choice.card_indexes == (1,)
    assert choice.moved_from == (0,)


def test_where_all_are_shared_the_refusal_says_what_each_card_is() -> None:
    with pytest.raises(Refused, match=r"1 whole card wanted, 0 free on this node \(card 0: shared, card 1: in use"):
        choose_whole_cards(1, (0,), [candidate("a", 1, 0)], node(None, None, shared=(0,)))


def test_cards_kept_for_others_are_left_to_them_as_long_as_others_are_free() -> None:
    kept = {0: "uid-b", 1: ""}
    assert choose_whole_cards(1, FREE, [], node(promised=kept)).card_indexes == (2,)
    assert choose_whole_cards(3, FREE, [], node(promised=kept)).card_indexes == (0, 1, 2)


def test_without_a_record_several_cards_are_chosen_close_together() -> None:
    assert choose_whole_cards(2, FREE, [], node(0, 1, 1, 0)).card_indexes == (0, 3)
    assert choose_whole_cards(2, (0, 1, 2), [], node(0, 1, 1, 0)).card_indexes == (1, 2)


def test_a_pod_that_wants_loose_cards_gets_the_odd_ones_and_keeps_its_own() -> None:
    def loose(*cards: int) -> Candidate:
        found = candidate("a", 2, *cards)
        request = replace(found.request, cards=CardRequest(0, 2, whole=True, whole_policy=LOOSE))
        return replace(found, request=request)

    use = node(0, 0, 1, 2)
    assert choose_whole_cards(2, FREE, [candidate("a", 2)], use).card_indexes == (0, 1)
    assert choose_whole_cards(2, FREE, [loose()], use).card_indexes == (2, 3)
    assert choose_whole_cards(2, FREE, [loose(3, 7)], use).card_indexes == (2, 3)


def test_a_card_that_takes_no_pods_is_described_and_the_advice_is_complete() -> None:
    cards = {0: card(0, cordoned=True), 1: card(1)}
    text = (
        r"^2 whole cards wanted, 0 free on this node \(card 0: not taking pods, card 1: in use or not healthy\); the "
    )
    with pytest.raises(Refused, match=text + "pod must be scheduled again$"):
        choose_whole_cards(2, (), [], NodeUse(cards))
    with pytest.raises(Refused, match=r"\(it has no cards\)"):
        choose_whole_cards(1, (), [], NodeUse({}))


def test_ids_are_read_as_cards_and_those_of_memory_or_of_other_plugins_are_refused() -> None:
    assert read_cards(device_ids(["card-2", "card-0"])) == (0, 2)
    text = r"names a unit of memory, .*: two plugins or releases seem to have registered the same resource$"
    with pytest.raises(RemoteContractError, match=text):
        read_cards(device_ids(device_ids_of_card(0, 1)))
    with pytest.raises(RemoteContractError, match="NVIDIA's device plugin"):
        read_cards(device_ids(["GPU-1234"]))
