"""``--node-policy expected-fill`` over real HTTP: learned from the lists, the same after a restart, and explained."""

from __future__ import annotations

from typing import Any

from gcushare.vendors import ENFLAME
from tests.extender_objects import filter_body, node_document, on_card, pod_document
from tests.protocol.extender_rig import ExtenderRig, Replica, extender_settings, until

CARD = ENFLAME.record.card_index
HELD = [("a", 0, 8), ("a", 1, 8), ("a", 1, 8), ("b", 0, 12), ("b", 1, 8)]
"""Most ask for 8 of 16. Node a has 8 free on a card and is the fuller; node b has 4 on one card and 8 on another."""


async def a_cluster(rig: ExtenderRig) -> Replica:
    await rig.add_nodes(node_document("a", 16, 16), node_document("b", 16, 16))
    for number, (node, index, units) in enumerate(HELD):
        await rig.add_pods(pod_document(f"held-{number}", units, node=node, record=on_card(index, units)))
    return await start(rig)


async def start(rig: ExtenderRig) -> Replica:
    replica = await rig.add_replica()
    await rig.until_serving(replica)
    return replica


async def ask(rig: ExtenderRig, replica: Replica, pod: dict[str, Any]) -> tuple[list[str], dict[str, int]]:
    body = filter_body(pod, ["a", "b"])
    _, fitting = await rig.post("filter", body, url=replica.url)
    _, scores = await rig.post("prioritize", body, url=replica.url)
    return fitting["NodeNames"], {each["Host"]: each["Score"] for each in scores}


PREFERS = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}}
        ]
    }
}


async def test_a_pod_goes_where_typical_pods_lose_least_before_and_after_a_restart() -> None:
    settings = extender_settings(node_policy="expected-fill", card_policy="expected-fill")
    async with ExtenderRig(settings, starts=False) as rig:
        replica = await a_cluster(rig)
        preferring = pod_document("new", 4)
        preferring["spec"]["affinity"] = PREFERS
        (pod,) = await rig.add_pods(preferring)
        await until(lambda: bool(replica.extender.states[0].waiting))
        names, scores = await ask(rig, replica, pod)
        assert names == ["b"], "the best alone, where no other is its equal"
        assert scores["b"] > scores["a"]

        await replica.stop()
        replica = await start(rig)
        assert await ask(rig, replica, pod) == (names, scores)

        assert await rig.bind(pod, "b", url=replica.url, is_filtered=True) == (200, {"Error": ""})
        assert rig.pod("new")["metadata"]["annotations"][CARD] == "0", "the card where nothing typical fits"
        path = f"{rig.prefix}/explain/default/new"
        choice = (await rig.get_json(path, url=replica.url))["choice"]
        assert (choice["nodePolicy"], choice["cardPolicy"]) == ("expected-fill", "expected-fill")
        assert (choice["betterNodes"], choice["fittingNodes"], choice["namedNodes"]) == (0, 2, 1)
        assert choice["setAside"] == ["preferred node affinity"]
        status, text = await rig.get(path, {"Accept": "text/plain"}, url=replica.url)
        assert status == 200
        assert (
            f"the best of 2 nodes with room by the policy expected-fill (score {choice['scorePercent']} of 100); card "
            "policy expected-fill; its preferred node affinity counted only among the 1 node that kube-scheduler was "
            "offered (--filter-answer)"
        ) in text
