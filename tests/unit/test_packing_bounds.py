"""The bounds: on cases that can be counted by hand, and against every order of choices where those are few."""

from __future__ import annotations

import itertools

import pytest
from benchmarks.packing.bounds import compute_bounds
from benchmarks.packing.workload import EmptyNode

from gcushare.core.packing.expected_fill import Demand, Room, Spot, room_after, spots_of

LARGE, SMALL, WHOLE = Demand(1, 810), Demand(1, 190), Demand(1, 0, True)


def nodes(*cards: int, cpu: int = 0) -> list[EmptyNode]:
    return [EmptyNode(f"n-{number}", cpu, 0, count) for number, count in enumerate(cards)]


def best_of_all(rooms: tuple[Room, ...], workload: tuple[Demand, ...]) -> int:
    """The most units over every choice of node and card; a pod that fits somewhere must be placed."""
    if not workload:
        return 0
    pod, rest = workload[0], workload[1:]
    results = []
    for index, room in enumerate(rooms):
        if room.fits(pod):
            spots: list[Spot | None] = [None] if pod.whole or pod.cards != 1 else [*spots_of(room, pod)]
            for spot in spots:
                after = (*rooms[:index], room_after(room, pod, spot), *rooms[index + 1 :])
                results.append(pod.cards * (1000 if pod.whole else pod.units) + best_of_all(after, rest))
    return max(results) if results else best_of_all(rooms, rest)


def test_what_a_large_share_leaves_is_lost_unless_small_ones_come() -> None:
    assert compute_bounds(nodes(2), [LARGE, LARGE]).acceptance == 0.81
    assert compute_bounds(nodes(2), [LARGE, LARGE, SMALL]).acceptance == (2 * 810 + 190) / 2000


def test_cards_that_are_held_whole_first_keep_large_shares_out() -> None:
    assert compute_bounds(nodes(2), [WHOLE, WHOLE, LARGE]).acceptance == 1.0
    assert compute_bounds(nodes(2), [LARGE, WHOLE, WHOLE]).acceptance == 1.81 / 2


def test_what_shares_leave_of_a_card_is_lost_even_if_there_are_many() -> None:
    assert compute_bounds(nodes(2), [Demand(1, 470)] * 4 + [Demand(1, 600)]).acceptance == 2 * 940 / 2000


def test_a_share_that_fills_a_card_does_so_as_often_as_it_is_there() -> None:
    # At best 650 + 300, once 400 + 300 + 300, and 300 three times on the two others.
    pods = [Demand(1, 400), *[Demand(1, 300)] * 20, Demand(1, 650)]
    assert 3750 / 4000 <= compute_bounds(nodes(4), pods).acceptance <= 3760 / 4000


def test_cpu_of_the_whole_cluster_bounds_what_can_be_used() -> None:
    pods = [Demand(1, 0, True, 1000)] * 4
    assert compute_bounds(nodes(4, cpu=2000), pods).resources == 0.5


def test_cards_of_different_sizes_are_refused() -> None:
    mixed = [EmptyNode("a", 0, 0, 1, "", 16), EmptyNode("b", 0, 0, 1, "", 32)]
    with pytest.raises(ValueError, match="one size"):
        compute_bounds(mixed, [WHOLE])


# It tries every order of choices.
@pytest.mark.slow
def test_no_choice_exceeds_the_bound() -> None:
    rooms = (Room(0, 0, (), (1000,)), Room(0, 0, (), (1000, 1000)))
    for pods in itertools.product((LARGE, SMALL, WHOLE, Demand(1, 500)), repeat=5):
        bound = compute_bounds(nodes(1, 2), list(pods)).least
        assert best_of_all(rooms, pods) <= bound * 3000 + 1e-6, pods
