"""Bursts of mixed pods: each gets cards by its own rules, whatever the kubelet's order and the plugin's restarts."""

from __future__ import annotations

import pytest
from simulation.burst_node import BurstNode
from simulation.burst_plugin import RuleBroken
from simulation.burst_pods import MEMORY
from simulation.bursts import BURSTS_PER_NODE, check, play, play_seed

from gcushare_playground.kubelet.checkpoint import PodDevices

FOUND = (335, 388, 402, 1038, 1087, 1001694, 1006471, 2021286)
"""Seeds that once broke a rule."""

MORE = range(2, 12)


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (*FOUND, *MORE))])
def test_no_pod_gets_cards_against_its_rules(seed: int) -> None:
    """In some seeds no scheduler places a part of the pods: those, and whose room they took, may be refused."""
    _, broken, counts = play_seed(seed)
    assert (broken, counts["bursts"]) == ("", BURSTS_PER_NODE), f"seed {seed}"
    assert counts["by hand"] or not counts["refused"]


@pytest.mark.slow
def test_pods_that_are_bound_at_once_are_refused_or_get_other_cards_which_the_check_finds() -> None:
    outcomes = [play_seed(seed, gates=False) for seed in range(6)]
    assert sum(counts["refused"] for _, _, counts in outcomes) > 10


def test_a_pod_on_another_card_than_its_rule_allows_is_found() -> None:
    node = BurstNode(1)
    held: list[PodDevices] = []
    while not held:
        play(node)
        held = [each for each in node.devices.entries() if each.container == "app0" and each.resource == MEMORY]
    node.devices.insert(held[0].pod_uid, "app0", MEMORY, sorted(held[0].ids)[1:], held[0].answer)
    with pytest.raises(RuleBroken, match=f"{held[0].pod_uid} "):
        check(node)
