from dataclasses import replace

from gcushare.core.matching import Candidate, has_room, match, order_candidates
from gcushare.core.requests import CardRequest, ContainerKind, ContainerRequest, PodRequest
from tests.builders import pod


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


def test_among_equals_one_whose_card_has_room_is_taken() -> None:
    first, second = candidate("first", 4, cards=(0,), assumed=1), candidate("second", 4, cards=(1,), assumed=2)
    assert match([first, second], 4, {0: 3, 1: 8}) is second
    assert match([first, second], 4, {0: 4, 1: 8}) is first
    assert match([first, second], 4, {0: 3, 1: 3}) is first


def test_a_pod_half_served_keeps_its_turn_even_if_its_card_is_full() -> None:
    half, other = candidate("half", 1, 4, served=1), candidate("other", 4, cards=(1,))
    assert match([half, other], 4, {0: 0, 1: 8}) is half


def test_a_pod_whose_room_was_handed_out_already_comes_behind_one_whose_was_not() -> None:
    displaced = replace(candidate("displaced", 4, cards=(0,), assumed=1), is_displaced=True)
    other = candidate("other", 4, cards=(1,), assumed=2)
    assert match([displaced, other], 4, {0: 16, 1: 4}) is other
    assert match([displaced, other], 4, {0: 16, 1: 3}) is displaced


def test_a_pod_that_the_kubelet_forgot_matches_only_if_no_other_can_be() -> None:
    forgotten = replace(candidate("forgotten", 4, cards=(0,), assumed=1), is_forgotten=True)
    other = candidate("other", 4, cards=(1,), assumed=2)
    assert match([forgotten, other], 4, {0: 16, 1: 4}) is other
    assert match([forgotten, other], 4, {0: 16, 1: 3}) is other, "what is free on another's card is not for it"
    assert match([forgotten, candidate("larger", 8)], 4, {0: 16}) is forgotten


def test_a_card_of_which_no_ids_are_known_to_be_free_has_no_room() -> None:
    gone, other = candidate("gone", 1, cards=(7,), assumed=1), candidate("other", 1, cards=(0,), assumed=2)
    assert match([gone, other], 1, {0: 1}) is other


def test_no_pod_matches_a_size_that_no_one_asks_for() -> None:
    assert match([candidate("a", 4)], 5, {0: 16}) is None


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
