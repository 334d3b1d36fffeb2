from dataclasses import replace

import pytest

from gcushare.core.matching import Candidate, has_room, match, order_candidates
from gcushare.core.requests import CardRequest, ContainerKind, ContainerRequest, PodRequest
from gcushare.device_plugin.pods.store import PodStore
from gcushare.vendors import ENFLAME
from tests.builders import pod
from tests.unit.plugin_pods import pod as bound_pod
from tests.unit.plugin_pods import reconcile


def candidate(
    name: str, *units: int, cards: tuple[int, ...] = (0,), assumed: int = 1, served: int = 0, created: str = ""
) -> Candidate:
    containers = tuple(ContainerRequest(f"c{number}", ContainerKind.APP, size) for number, size in enumerate(units))
    request = PodRequest(containers, CardRequest(sum(units)))
    return Candidate(pod(name, created=created), request, cards, assumed, served)


def names(candidates: list[Candidate]) -> list[str]:
    return [c.pod.name for c in candidates]


def test_only_a_pod_whose_next_container_has_that_size_can_match() -> None:
    pods = [candidate("a", 4), candidate("b", 2, 4), candidate("c", 2, 4, served=1), candidate("d", 4, served=1)]
    assert names(order_candidates(pods, 4)) == ["c", "a"]


def test_a_pod_half_served_comes_first_then_assume_time_then_creation_then_uid() -> None:
    pods = [
        candidate("unassigned", 4, cards=(), assumed=0, created="2026-01-01T00:00:00Z"),
        candidate("later", 4, assumed=9),
        candidate("b", 4, assumed=5, created="2026-01-01T00:00:02Z"),
        candidate("a", 4, assumed=5, created="2026-01-01T00:00:02Z"),
        candidate("older", 4, assumed=5, created="2026-01-01T00:00:01Z"),
        candidate("half", 1, 4, assumed=20, served=1),
    ]
    assert names(order_candidates(pods, 4)) == ["half", "older", "a", "b", "later", "unassigned"]


FIRST, SECOND = candidate("first", 4, cards=(0,), assumed=1), candidate("second", 4, cards=(1,), assumed=2)
HALF = candidate("half", 1, 4, served=1)
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
        pytest.param([FORGOTTEN, candidate("larger", 8)], {0: 16}, FORGOTTEN, id="unless no other can be"),
        pytest.param([candidate("larger", 8)], {0: 16}, None, id="no one asks for that size"),
    ],
)
def test_a_call_for_4_units_is_for(candidates: list[Candidate], free: dict[int, int], taken: Candidate | None) -> None:
    assert match(candidates, 4, free) is taken


def test_room_is_asked_of_every_recorded_card_and_of_none_of_a_pod_half_served() -> None:
    assert has_room(candidate("a", 4), 4, {0: 4})
    assert not has_room(candidate("a", 4), 4, {0: 3})
    assert not has_room(candidate("a", 4), 4, {1: 4})
    assert not has_room(candidate("a", 4, cards=()), 4, {0: 4})
    assert has_room(candidate("a", 4, 4, served=1), 4, {})
    assert not has_room(candidate("a", 4, 4), 4, {0: 7}), "not for the pod's second container"
    assert has_room(candidate("a", 4, 4), 4, {0: 8})


def test_whole_cards_have_room_if_as_many_of_the_pods_own_are_free() -> None:
    containers = (ContainerRequest("c0", ContainerKind.APP, whole_cards=2),)
    pair = Candidate(pod("pair"), PodRequest(containers, CardRequest(0, 2, whole=True)), (1, 3))
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
