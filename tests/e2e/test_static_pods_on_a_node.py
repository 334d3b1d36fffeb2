"""Static pods: a kubelet admits them before the API server shows what they ask for, so before their rules are known.

Their mirrors have no record, as anyone may write one: the Node says what they hold, as the kubelet shows it.
"""

from __future__ import annotations

import json

import pytest

from gcushare.core.units import GIB
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import USE_CARDS
from gcushare.wire.kubelet.device_ids import cards_of_ids
from gcushare.wire.nodes import decode_inventory
from gcushare_playground.picture import phase_of
from gcushare_playground.plans import NodePlan
from tests.e2e.at_rest import listed_ids
from tests.e2e.bursts import BurstPod, Part, Rule
from tests.e2e.control_plane import NODE
from tests.e2e.node_side import StartNode, real_pod
from tests.e2e.objects import JsonObject
from tests.e2e.test_init_containers_on_a_node import APP, INIT, SIDECAR
from tests.e2e.waiting import until

TWO = NodePlan(name=NODE, card_bytes=(16 * GIB,) * 2)
MAIN, SECOND = Part("main", APP, 4), Part("second", APP, 4)
PODS = {
    "two-containers": BurstPod("static", (MAIN, SECOND)),
    "three-containers": BurstPod("static", (MAIN, Part("second", APP, 2), Part("third", APP, 2))),
    "sidecar": BurstPod("static", (Part("aside", SIDECAR, 4), MAIN)),
    "init-container": BurstPod("static", (Part("first", INIT, 4), Part("main", APP, 8))),
    "two-cards": BurstPod("static", (MAIN,), cards=2),
    "another-card": BurstPod("static", (MAIN,), Rule({USE_CARDS: "1"}, frozenset({1}))),
}


def body_of(pod: BurstPod) -> JsonObject:
    body = pod.body() | {"apiVersion": "v1", "kind": "Pod"}
    body["metadata"]["namespace"] = "kube-system"
    return body


@pytest.mark.parametrize("kind", PODS)
async def test_a_static_pods_containers_share_a_card_that_the_node_names(start_node: StartNode, kind: str) -> None:
    """A pod of 10 leaves 6 on card 0, which is the fullest card: room for the first of two containers, not for both.

    One that asks for several cards or for certain ones may get what it did not ask for; the Node says what it has.
    """
    side = await start_node(TWO)
    await side.run_pods(real_pod("other", 10))
    assert side.recorded("other") == (0,)
    pod, pods = PODS[kind], side.scheduling.pods
    name = f"{pod.name}-{NODE}"
    key = f"kube-system/{name}"
    manifest = side.machine.etc / "manifests" / "static.json"
    manifest.write_text(json.dumps(body_of(pod)))

    def mirror() -> JsonObject:
        return pods.objects.get(key, {"metadata": {}})

    def refusals() -> list[str]:
        """A kubelet makes no mirror of a static pod that it refuses, only an Event."""
        about = (each for each in side.scheduling.events.objects.values() if each["involvedObject"].get("name") == name)
        return [str(each["message"]) for each in about if each["reason"] == "UnexpectedAdmissionError"]

    def published() -> dict[str, dict[int, int]]:
        text = side.scheduling.nodes.objects[NODE]["metadata"]["annotations"][ENFLAME.inventory_annotation]
        return {holder.pod: dict(holder.units) for holder in decode_inventory(text).unrecorded}

    async def missing() -> str:
        runs = phase_of(mirror()) == "Running" and key in published()
        return "" if runs or refusals() else f"mirror {mirror().get('status')}, the Node names {published()}"

    try:
        await until(missing, f"{key} is decided", deadline_s=60)
        if refusals():
            assert "card" in refusals()[0]
            return
        ids = [each for (of, _), held in (await listed_ids(side)).items() if of == name for each in held]
        cards = cards_of_ids(ids)

        async def differs() -> str:
            return "" if published() == {key: dict(cards)} else f"the Node names {published()}"

        await until(differs, f"the kubelet gave it {cards}", deadline_s=10)
        assert ENFLAME.record.card_index not in mirror()["metadata"]["annotations"]
        assert len(cards) in {1, pod.cards}, f"the kubelet gave it {cards}"
    finally:
        manifest.unlink()
        await pods.until(lambda: key not in pods.objects, f"{key} is gone", deadline_s=60)
