"""What an author with ``edit`` alone can do to the cards of others by what a pod says, without the policies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from gcushare.core.units import GIB
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import RECORDED_UID, USE_CARDS, PodRecord, encode_record, record_keys
from gcushare.wire.nodes import decode_inventory
from gcushare.wire.pods import MACHINE_UID, MIRROR
from gcushare_playground.picture import POD_OBJECTS, phase_of
from gcushare_playground.plans import NodePlan
from tests.e2e.author import KEPT, PODS, Author, make_author
from tests.e2e.control_plane import NODE
from tests.e2e.machine import Machine
from tests.e2e.node_side import NodeSide, node_starter, real_pod
from tests.e2e.objects import JsonObject
from tests.e2e.waiting import until

SIX = NodePlan(name=NODE, card_bytes=(16 * GIB,) * 6)
"""Six, as kube-scheduler itself counts in a node's sum what any pod there asks for, also one that never runs."""
FINALIZERS = pytest.mark.parametrize("finalizers", [[], KEPT], ids=["plain", "held by a finalizer"])


@dataclass(frozen=True, slots=True)
class Attacked:
    """A node of six cards of 16 units, all programs, and the author."""

    side: NodeSide
    author: Author

    async def counted(self) -> dict[str, dict[int, int]]:
        """The units of each card by pod, as the extender counts them."""
        url = f"{self.side.scheduling.extender_url}/gcushare-scheduler/inspect"
        async with aiohttp.ClientSession() as session, session.get(url) as answer:
            (node,) = (await answer.json())["nodes"]
        assert not node.get("unknownCards"), "units are kept on all cards"
        held: dict[str, dict[int, int]] = {}
        for card in node["devices"]:
            for pod in card["pods"] or ():
                held.setdefault(pod["name"], {})[card["id"]] = pod["usedGCU"]
        return held

    async def until_counted(self, *names: str) -> None:
        """Wait until the extender counts what the kubelet gave these pods, and nothing else."""
        granted = {name: self.side.granted(name) for name in names}

        async def differing() -> str:
            found = await self.counted()
            return "" if found == granted else f"{found} counted, {granted} given"

        await until(differing, "what is counted is what the kubelet gave")

    def is_there(self, name: str) -> bool:
        return f"default/{name}" in self.side.scheduling.pods.objects


@pytest_asyncio.fixture(loop_scope="module")
async def attacked(machine: Machine) -> AsyncIterator[Attacked]:
    async with node_starter(machine) as start:
        found = Attacked(await start(SIX), await make_author(machine.control_plane))
        try:
            yield found
        finally:
            await found.author.let_go()


def by_hand(name: str, units: int, annotations: Mapping[str, str], finalizers: list[str], **spec: Any) -> JsonObject:
    """A pod whose author names its node."""
    body = real_pod(name, units, nodeName=NODE, automountServiceAccountToken=False, **spec)
    body["metadata"] |= {"annotations": dict(annotations), "finalizers": finalizers}
    return body


@FINALIZERS
async def test_false_mirrors_close_no_card_get_no_record_and_move_no_pod(
    attacked: Attacked, finalizers: list[str]
) -> None:
    """One asks for a whole card, others name a victim by its name and by its uid, others are of its size."""
    side, author = attacked.side, attacked.author
    await side.run_pods(real_pod("victim", 12))
    uid = side.scheduling.pod("victim")["metadata"]["uid"]
    said = {"large": ("x", 16), "by-name": ("default/victim", 12), "by-uid": (uid, 12), "small": ("y", 4)}
    for name, (hash_, units) in said.items():
        other = {USE_CARDS: "1"} if name == "small" else {}
        annotations = {MIRROR: hash_, MACHINE_UID: hash_, "kubernetes.io/config.source": "file", **other}
        await author.make(PODS, by_hand(name, units, annotations, finalizers))
    await side.run_pods(real_pod("next", 16))
    await side.run_pods(real_pod("four", 4))
    await side.expect_true("victim", "next", "four")
    await attacked.until_counted("victim", "next", "four")
    pods = side.scheduling.pods
    for name in said if finalizers else ():
        # Later the author names the group of a pod in place of its name.
        status, _ = await author.send("PATCH", f"{PODS}/{name}", {"metadata": {"annotations": {MACHINE_UID: uid}}})
        assert status == 200
    await pods.until(
        lambda: all(
            side.scheduling.pod(name)["metadata"].get("deletionGracePeriodSeconds") == 0
            if finalizers
            else not attacked.is_there(name)
            for name in said
        ),
        "the kubelet has deleted all of them",
    )
    await side.plugin.kill()
    await side.until_allocatable(0)
    await side.start_plugin()
    await side.until_allocatable(side.units)
    await side.scheduling.client.delete(POD_OBJECTS, "four", namespace="default", grace_s=1)
    await side.run_pods(real_pod("after", 4))
    await attacked.until_counted("victim", "next", "after")
    for name in said if finalizers else ():
        found = side.scheduling.pod(name)["metadata"]["annotations"]
        assert not found.keys() & set(record_keys(ENFLAME)), f"{name} has a record"


@FINALIZERS
async def test_the_record_of_an_exported_manifest_is_not_believed(attacked: Attacked, finalizers: list[str]) -> None:
    """It names the full card; what it would take of the other one is not given to the pod that comes after it."""
    side, author = attacked.side, attacked.author
    await side.run_pods(*(real_pod(f"other-{number}", 16) for number in range(4)))
    await side.run_pods(real_pod("first", 14))
    await side.run_pods(real_pod("full", 16))
    old = side.scheduling.pod("full")["metadata"]["annotations"]
    assert old[RECORDED_UID] == side.scheduling.pod("full")["metadata"]["uid"]
    await author.make(PODS, by_hand("copy", 2, old, finalizers))
    await side.scheduling.create_pods([real_pod("late", 2)])
    await side.until_running("copy")
    await side.expect_true("copy")
    assert side.recorded("copy") == side.recorded("first") != side.recorded("full")
    made = side.scheduling.pod("copy")["metadata"]
    assert made["annotations"][RECORDED_UID] == made["uid"]
    assert "gcushare.io/corrected" not in made["annotations"]
    await attacked.until_counted("first", "full", "copy", *(f"other-{number}" for number in range(4)))
    assert phase_of(side.scheduling.pod("late")) == "Pending", "it was not sent to a card that is full"


@FINALIZERS
async def test_pods_that_are_deleted_before_they_start_keep_no_room(attacked: Attacked, finalizers: list[str]) -> None:
    """Also with a record that their author writes on them, in their own name."""
    side, author = attacked.side, attacked.author
    for number, grace_s in enumerate((1, 0, 0)):
        name = f"gone-{number}"
        made = await author.make(PODS, by_hand(name, 16, {}, finalizers))
        await author.send("DELETE", f"{PODS}/{name}", {"gracePeriodSeconds": grace_s})
        uid = made["metadata"]["uid"]
        record = PodRecord(card_indexes=(number,), card_units=16, pod_units=16, assigned=True, uid=uid)
        body = {"metadata": {"annotations": encode_record(ENFLAME, record)}}
        await author.send("PATCH", f"{PODS}/{name}", body)
    await side.run_pods(*(real_pod(f"other-{number}", 16) for number in range(6)))
    await attacked.until_counted(*(f"other-{number}" for number in range(6)))


async def test_a_record_that_is_removed_again_and_again_closes_no_other_card(attacked: Attacked) -> None:
    side, author = attacked.side, attacked.author
    await side.run_pods(real_pod("synced", 12))
    bare = {"metadata": {"annotations": dict.fromkeys(record_keys(ENFLAME))}}

    async def said() -> str:
        if ENFLAME.record.card_index in (side.scheduling.pod("synced")["metadata"].get("annotations") or {}):
            await author.send("PATCH", f"{PODS}/synced", bare)
        text = side.scheduling.nodes.objects[NODE]["metadata"]["annotations"][ENFLAME.inventory_annotation]
        return "" if decode_inventory(text).unrecorded else "the Node does not say it yet"

    await until(said, "the Node says what the pod holds")
    await author.send("PATCH", f"{PODS}/synced", bare)
    await side.run_pods(*(real_pod(f"next-{number}", 16) for number in range(5)))
    message = await side.scheduling.until_said("synced", "RecordRepaired")
    assert "removed" in message
