"""kube-scheduler with our extender: pods that share no card with each other, and memory over linked cards."""

from __future__ import annotations

import msgspec

from gcushare.core.cards import Inventory
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import PODS
from gcushare.scheduler_extender.verbs.filter import APART_REASON
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import APART, CARDS, CARDS_LINKED, RECORDED_APART
from gcushare.wire.nodes import decode_inventory, encode_inventory
from tests.e2e.objects import JsonObject, card_of, node, pod
from tests.e2e.scheduling import Scheduling


def replica(name: str, value: str = "web") -> JsonObject:
    made = pod(name, 2)
    made["metadata"] |= {"labels": {"app": value}, "annotations": {APART: "app"}}
    return made


def with_links(made: JsonObject, *groups: str) -> JsonObject:
    """The node, its cards in these link groups."""
    key = ENFLAME.inventory_annotation
    inventory = decode_inventory(made["metadata"]["annotations"][key])
    cards = tuple(
        msgspec.structs.replace(card, link_group=group) for card, group in zip(inventory.cards, groups, strict=True)
    )
    made["metadata"]["annotations"][key] = encode_inventory(Inventory(unit=inventory.unit, cards=cards))
    return made


async def test_replicas_share_no_card_also_after_the_extender_starts_again_and_labels_change(
    scheduling: Scheduling,
) -> None:
    await scheduling.create_nodes([node("node-1", 16, 16)])
    await scheduling.create_pods([replica("a"), replica("b")])
    await scheduling.until_bound("a", "b")
    assert {card_of(scheduling.pod(name)) for name in "ab"} == {(0,), (1,)}
    assert scheduling.pod("a")["metadata"]["annotations"][RECORDED_APART] == "app=web"

    await scheduling.control_plane.end("gcushare-scheduler-extender")
    relabel = Patch(PatchKind.MERGE, {"metadata": {"labels": {"app": "another"}}})
    await scheduling.client.patch(PODS, "a", relabel, namespace="default")
    await scheduling.start_extender()
    await scheduling.create_pods([replica("c")])  # as a rollout that creates a pod before it deletes one
    await scheduling.until_said("c", "FailedScheduling", text=APART_REASON)
    await scheduling.until_said("c", "InsufficientCardMemory", text="that holds no other pod of app=web")
    await scheduling.client.delete(PODS, "a", namespace="default", grace_s=0)
    await scheduling.until_bound("c")
    assert card_of(scheduling.pod("c")) != card_of(scheduling.pod("b"))


async def test_memory_over_linked_cards_waits_for_a_linked_set_and_unlinked_ones_take_what_is_left(
    scheduling: Scheduling,
) -> None:
    await scheduling.create_nodes([with_links(node("node-1", 16, 16, 16, 16), "x", "", "x", "")])
    several = pod("linked", 8)
    several["metadata"]["annotations"] = {CARDS: "2", CARDS_LINKED: "true"}
    preferring = pod("first", 28)
    preferring["metadata"]["annotations"] = {CARDS: "2"}
    await scheduling.create_pods([preferring])
    await scheduling.until_bound("first")
    assert card_of(scheduling.pod("first")) == (0, 2)
    await scheduling.create_pods([several])
    await scheduling.until_said("linked", "InsufficientCardMemory", text="too few of them are linked with each other")
    await scheduling.client.delete(PODS, "first", namespace="default", grace_s=0)
    await scheduling.until_bound("linked")
    assert card_of(scheduling.pod("linked")) == (0, 2)
