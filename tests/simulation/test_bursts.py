"""Bursts of mixed pods: each gets cards by its own rules, whatever the kubelet's order and the plugin's restarts."""

from __future__ import annotations

import pytest
from simulation.bursts import BURSTS_PER_NODE, MEMORY, BurstNode, RuleBroken, play_seed


@pytest.mark.parametrize("seed", [*range(12), *range(90, 94)])
def test_no_pod_gets_cards_against_its_rules(seed: int) -> None:
    """In some seeds no scheduler places a part of the pods: those, and whose room they took, may be refused."""
    _, broken, counts = play_seed(seed)
    assert (broken, counts["bursts"]) == ("", BURSTS_PER_NODE), f"seed {seed}"
    assert counts["by hand"] or not counts["refused"]


def test_pods_that_are_bound_at_once_are_refused_or_get_other_cards_which_the_check_finds() -> None:
    outcomes = [play_seed(seed, gates=False) for seed in range(6)]
    assert sum(counts["refused"] for _, _, counts in outcomes) > 10


def test_a_pod_on_another_card_than_its_rule_allows_is_found() -> None:
    node = BurstNode(1)
    while not (keys := [key for key in node.devices.held if key[1:] == ("app0", MEMORY)]):
        node.play()
    key = keys[0]
    node.devices.held[key] = frozenset(sorted(node.devices.held[key])[1:])
    with pytest.raises(RuleBroken, match=f"{key[0]} "):
        node.check()
