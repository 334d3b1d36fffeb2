"""A real kubelet's containers after starts in which the driver numbers the cards differently."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from gcushare.core.units import GIB
from gcushare.vendors import ALIYUN
from gcushare.wire.annotations import CARD_UUID
from gcushare.wire.nodes import decode_inventory
from gcushare_playground.plans import NodePlan
from tests.e2e.control_plane import NODE
from tests.e2e.node_side import NodeSide, StartNode, real_pod

THREE = NodePlan(name=NODE, card_bytes=(16 * GIB,) * 3)
VISIBLE = ALIYUN.environment.visible
NODE_OPTIONS = {"vendor": ALIYUN}


async def restart(side: NodeSide, order: Sequence[str]) -> None:
    """End plugin and kubelet, and start them with a driver that lists these cards, by uuid, in this order."""
    await side.plugin.stop()
    await side.machine.kill_kubelet()
    file = side.scheduling.place.cards_file(side.node)
    cards = [{"memory": 16 * GIB, "uuid": uuid} for uuid in order]
    half = file.with_suffix(".half")
    half.write_bytes(msgspec.json.encode({"cards": cards}))
    half.replace(file)
    await side.machine.start_kubelet()
    await side.start_plugin()


async def end_containers(side: NodeSide) -> None:
    """End every container, as a boot does; the kubelet starts it again with the answer that it stored.

    After the plugin has registered: a kubelet fails the pods whose containers do not run before.
    """
    for pod in list(side.scheduling.pods.objects.values()):
        for status in pod["status"]["containerStatuses"]:
            await side.machine.end_container(status["containerID"].removeprefix("containerd://"))


def numbers(side: NodeSide) -> dict[str, tuple[int, int]]:
    """The number and the minor number of each card, as the Node has them."""
    annotations = side.scheduling.nodes.objects[NODE]["metadata"]["annotations"]
    inventory = decode_inventory(annotations[ALIYUN.inventory_annotation])
    return {card.uuid: (card.index, card.minor_number) for card in inventory.cards}


def restarts(side: NodeSide, name: str) -> int:
    """How often a pod's container was started again."""
    statuses = side.scheduling.pod(name)["status"].get("containerStatuses") or []
    return sum(each["restartCount"] for each in statuses if "running" in each["state"])


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        pytest.param("bc", {"b": (1, 0), "c": (2, 1)}, id="a lower card died"),
        pytest.param("bac", {"a": (0, 1), "b": (1, 0), "c": (2, 2)}, id="two cards changed places"),
        pytest.param("nabc", {"a": (0, 1), "b": (1, 2), "c": (2, 3), "n": (3, 0)}, id="a card was added in front"),
        pytest.param("anc", {"a": (0, 0), "n": (3, 1), "c": (2, 2)}, id="a card was replaced"),
    ],
)
async def test_pods_keep_their_cards_and_no_card_is_given_twice(
    start_node: StartNode, order: str, expected: dict[str, tuple[int, int]]
) -> None:
    side = await start_node(THREE)
    uuids = {letter: f"{NODE}-card-{number}" for number, letter in enumerate("abc")} | {"n": "new-card"}
    await side.run_pods(real_pod("on-a", 15, vendor=ALIYUN, restartPolicy="Always"))
    await side.run_pods(real_pod("on-b", 15, vendor=ALIYUN, restartPolicy="Always"))
    await side.run_pods(real_pod("on-c", 2, vendor=ALIYUN, restartPolicy="Always"))
    before = {name: (await side.seen(name))[VISIBLE] for name in ("on-a", "on-b", "on-c")}
    assert before == {f"on-{letter}": uuids[letter] for letter in "abc"}
    await restart(side, [uuids[letter] for letter in order])
    wanted = {uuids[letter]: pair for letter, pair in expected.items()}
    await side.scheduling.nodes.until(
        lambda: wanted.items() <= numbers(side).items(), "the Node has the cards", shown=lambda: str(numbers(side))
    )
    held = {"a": 15, "b": 15, "c": 2}
    await side.until_allocatable(16 * len(order) + sum(held[letter] for letter in held if letter not in order))
    await end_containers(side)
    await side.scheduling.pods.until(lambda: all(restarts(side, name) for name in before), "containers started again")
    await side.run_pods(real_pod("late", 14, vendor=ALIYUN, restartPolicy="Always"))
    late = (await side.seen("late"))[VISIBLE]
    assert late in ((uuids["c"], uuids["n"]) if "n" in order else (uuids["c"],))
    for name, uuid in before.items():
        assert (await side.seen(name))[VISIBLE] == uuid
        assert side.scheduling.pod(name)["metadata"]["annotations"][CARD_UUID] == uuid
