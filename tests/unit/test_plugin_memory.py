import asyncio

import pytest

from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.matching import Candidate
from gcushare.core.requests import CardRequest, ContainerKind, ContainerRequest, PodRequest
from gcushare.device_plugin.allocation.allocator import CardAllocator, PodChanges
from gcushare.device_plugin.allocation.card_choice import Preference, choose_card, choose_ids
from gcushare.device_plugin.allocation.response import AllocateResponses
from gcushare.device_plugin.pods.store import PodStore
from gcushare.node.container_environment import CONTAINER_BYTES
from gcushare.node.node_settings import Strategy
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import MEMORY_LIMIT
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import DeviceIds, PreferredRequest, device_ids
from gcushare.wire.objects import Pod
from tests.builders import card, inventory, pod
from tests.extender_objects import a_pod, on_card

TOTALS = {0: 16, 1: 16, 2: 16}
CARDS = {index: card(index) for index in TOTALS}


def allocate(ids: list[str], *pods: Pod) -> dict[str, str]:
    """The variables of the container that is given these ids, if these pods of the node may have asked for them."""
    responses = AllocateResponses(ENFLAME, (Strategy.ENV,))
    store = PodStore(ENFLAME)
    for each in pods:
        store.pod_applied(each)
    allocator = CardAllocator(
        store,
        responses,
        PodChanges(),
        whole=False,
        wait_for_pod_s=0.0,
        clock=lambda: 0.0,
        wall_clock_ns=lambda: 0,
        on_allocate=lambda: None,
    )
    allocator.set_inventory(inventory(*CARDS.values()))
    return dict(asyncio.run(allocator.allocate(device_ids(ids))).envs)


def request(free: dict[int, int], size: int, must: list[str] | None = None) -> PreferredRequest:
    available = [
        device_id for index, count in free.items() for device_id in device_ids_of_card(index, 16)[16 - count :]
    ]
    return PreferredRequest(device_ids([*available, *(must or [])]), device_ids(must or []), size)


def candidate(name: str, units: int, *cards: int, served: int = 0, per_pod: int = 1) -> Candidate:
    containers = tuple(ContainerRequest(f"c{number}", ContainerKind.APP, units) for number in range(served + 1))
    return Candidate(pod(name), PodRequest(containers, CardRequest(units // per_pod, per_pod)), cards, 1, served)


def cards_of(preference: Preference) -> dict[int, int]:
    return DeviceIds(b"".join(preference.entries)).count_by_card()


def test_where_the_recorded_card_is_full_another_that_fits_is_taken_without_breaking_promises() -> None:
    preference = choose_ids(request({0: 3, 1: 6, 2: 8}, 4), [candidate("a", 4, 0)], {0: 4, 1: 6}, CARDS)
    assert cards_of(preference) == {2: 4}
    assert preference.moved_from == (0,)


def test_a_pod_that_no_one_assigned_gets_the_fullest_card_that_fits() -> None:
    assert cards_of(choose_ids(request({0: 3, 1: 6, 2: 16}, 4), [candidate("a", 4)], {}, CARDS)) == {1: 4}


def test_a_pod_of_several_containers_goes_where_all_have_room_if_a_card_has() -> None:
    containers = tuple(ContainerRequest(name, ContainerKind.APP, 4) for name in ("c0", "c1"))
    pair = Candidate(pod("a"), PodRequest(containers, CardRequest(8)), (), 1)
    assert cards_of(choose_ids(request({0: 6, 1: 10, 2: 16}, 4), [pair], {}, CARDS)) == {1: 4}
    assert cards_of(choose_ids(request({0: 6, 1: 10, 2: 16}, 4), [pair], {1: 3}, CARDS)) == {2: 4}
    assert cards_of(choose_ids(request({0: 6, 1: 5, 2: 3}, 4), [pair], {}, CARDS)) == {1: 4}


@pytest.mark.parametrize(("amounts", "per_pod"), [((4, 6), 1), ((4, 16), 2), ((4, 4, 4), 1), ((4, 2, 12), 2)])
def test_a_card_with_room_for_the_first_container_alone_is_left_to_the_equal_pod_that_got_it(
    amounts: tuple[int, ...], per_pod: int
) -> None:
    """Pods of equal requests start together, and the first one admitted got the cards of the second one's record."""
    containers = tuple(ContainerRequest(f"c{n}", ContainerKind.APP, units) for n, units in enumerate(amounts))
    own, elsewhere = ((0,), (2,)) if per_pod == 1 else ((0, 1), (2, 3))
    cards = {index: card(index) for index in range(4)}
    wants = PodRequest(containers, CardRequest(sum(amounts) // per_pod, per_pod))
    second = Candidate(pod("b"), wants, own, 1)
    free = dict.fromkeys(own, 16 - wants.cards.units) | dict.fromkeys(elsewhere, 16)
    share = dict.fromkeys(elsewhere, amounts[0] // per_pod)
    assert cards_of(choose_ids(request(free, amounts[0]), [second], {}, cards)) == share
    taken = dict.fromkeys(elsewhere, 16)
    kept = dict.fromkeys(own, amounts[0] // per_pod)
    assert cards_of(choose_ids(request(free, amounts[0]), [second], taken, cards)) == kept, "promised to others"


@pytest.mark.parametrize(("first", "later"), [(4, (4,)), (4, (2, 2)), (1, (9, 1))])
@pytest.mark.parametrize("free", [{0: 6, 1: 16}, {0: 16, 1: 16}, {0: 16, 1: 15, 2: 14}])
def test_containers_of_a_pod_that_is_not_known_follow_each_other(
    first: int, later: tuple[int, ...], free: dict[int, int]
) -> None:
    (begun,) = cards_of(choose_ids(request(free, first), [], {}, CARDS))
    left = {**free, begun: free[begun] - first}
    for amount in later:
        assert cards_of(choose_ids(request(left, amount), [], {}, CARDS, begun={begun})) == {begun: amount}
        left[begun] -= amount


def test_where_no_card_fits_the_message_names_every_card() -> None:
    with pytest.raises(
        Refused, match=r"no card of this node has 9 free units \(card 0: 3 of 16, card 1: 6 of 16, card 2"
    ):
        choose_ids(request({0: 3, 1: 6, 2: 8}, 9), [candidate("a", 9, 0)], {}, CARDS)


def test_ids_that_must_be_included_decide_the_card_and_are_in_the_answer() -> None:
    must = device_ids_of_card(1, 2)
    preference = choose_ids(request({0: 16, 1: 10}, 5, must), [candidate("a", 5, 0)], {}, CARDS)
    assert cards_of(preference) == {1: 5}
    assert set(must) <= set(DeviceIds(b"".join(preference.entries)).text())
    assert len(set(preference.entries)) == 5


def test_memory_over_two_cards_is_taken_equally_from_both() -> None:
    preference = choose_ids(request(TOTALS, 8), [candidate("a", 8, 0, 2, per_pod=2)], {}, CARDS)
    assert cards_of(preference) == {0: 4, 2: 4}
    moved = choose_ids(request({0: 1, 1: 16, 2: 16}, 8), [candidate("a", 8, 0, 2, per_pod=2)], {}, CARDS)
    assert cards_of(moved) == {1: 4, 2: 4}


def test_a_pods_own_promise_keeps_no_room_from_it() -> None:
    moved = choose_ids(request({1: 7, 2: 10}, 6), [candidate("a", 6, 2, 0)], {1: 5, 2: 6}, CARDS)
    assert cards_of(moved) == {2: 6}


def test_ids_of_another_layout_are_refused_and_explained() -> None:
    with pytest.raises(RemoteContractError, match="Aliyun's gpushare"):
        allocate(["GPU-1-_-0"])


def test_a_container_may_use_its_request_and_what_its_pods_limit_adds() -> None:
    names, ids = ENFLAME.environment, device_ids_of_card(0, 16)[:4]

    def bound(name: str, **annotations: str) -> Pod:
        return a_pod(name, 4, node="n1", record=on_card(0, 4), annotations=annotations)

    burst = bound("burst", **{MEMORY_LIMIT: "12"})
    assert allocate(ids, burst)[CONTAINER_BYTES] == str(12 << 30)
    assert allocate(ids, burst)[names.container_units] == "4"
    same = bound("same", **{MEMORY_LIMIT: "12"})
    assert allocate(ids, burst, same)[CONTAINER_BYTES] == str(12 << 30)
    plain = bound("plain")
    assert allocate(ids, burst, plain)[CONTAINER_BYTES] == str(4 << 30), "the call may be for either"
    large = bound("large", **{MEMORY_LIMIT: "99"})
    with pytest.raises(Refused, match="annotations of pod default/large exclude"):
        allocate(ids, large)


def test_a_card_without_a_promise_on_it_comes_first_then_the_fullest_then_the_lowest() -> None:
    assert choose_card({0: 8, 1: 4, 2: 4}, {}, 4, 4) == 1
    assert choose_card({0: 8, 1: 4}, {1: 1}, 4, 4) == 0
    assert choose_card({0: 8, 1: 4}, {0: 4, 1: 1}, 4, 4) == 0
    assert choose_card({0: 8, 1: 4}, {0: 5, 1: 1}, 4, 4) == 1
    assert choose_card({0: 3}, {}, 4, 4) is None
    assert choose_card({0: 3}, {}, 4, None) is None
    assert choose_card({0: 8, 1: 9}, {1: 6}, 4, None, begun={1}) == 0
