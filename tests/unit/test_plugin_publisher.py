"""What the plugin writes on its Node, when, and how often."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gcushare.core.errors import ForbiddenError
from gcushare.device_plugin.node.publisher import CardsPublisher
from gcushare.device_plugin.plugin_settings import CardCount
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.objects import Node, NodeStatus, ObjectMeta
from tests.builders import inventory
from tests.played_api import Asked, PlayedApi
from tests.running import running

COUNT, INVENTORY = ENFLAME.count_resource, ENFLAME.inventory_annotation


EIGHT, SEVEN = inventory(*[16] * 8), inventory(*[16] * 7)


class ANode(PlayedApi):
    """A Node whose changes come back to the publisher, as by a watch."""

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}
        self.capacity: dict[str, str] = {}
        self.writes: list[str] = []
        self.refusals = 0
        self.changed = asyncio.Event()
        self.refused = asyncio.Event()

    def as_object(self) -> Node:
        return Node(metadata=ObjectMeta(annotations=self.annotations), status=NodeStatus(capacity=self.capacity))

    async def answer(self, asked: Asked) -> Node:
        if self.refusals:
            self.refusals -= 1
            self.refused.set()
            raise ForbiddenError("nodes is forbidden")
        if "status" in asked.body:
            self.writes.append("capacity")
            self.capacity |= asked.body["status"]["capacity"]
        else:
            self.writes.append("annotations")
            self.annotations |= {key: value for key, value in asked.annotations.items() if value is not None}
        self.changed.set()
        return self.as_object()

    async def until_writes(self, count: int) -> None:
        async with asyncio.timeout(60):
            while len(self.writes) < count:
                self.changed.clear()
                await self.changed.wait()


@asynccontextmanager
async def publishing(node: ANode, vendor: Vendor = ENFLAME, count: int = 1) -> AsyncIterator[CardsPublisher]:
    publisher = CardsPublisher(vendor, "node-1", node.client, rng=random.Random(1), pods_per_count=count)
    publisher.node_applied(node.as_object())
    async with running(publisher.run(), "publisher"):
        yield publisher


async def test_without_a_count_the_inventory_alone_is_written() -> None:
    node = ANode()
    async with publishing(node, count=0) as publisher:
        publisher.publish(EIGHT)
        await node.until_writes(1)
        publisher.publish(SEVEN)
        await node.until_writes(2)
    assert (node.writes, node.capacity) == (["annotations"] * 2, {})


async def test_what_stands_there_already_is_not_written_again() -> None:
    node = ANode()
    node.annotations[INVENTORY] = encode_inventory(EIGHT)
    async with publishing(node) as publisher:
        publisher.publish(EIGHT)
        await node.until_writes(1)
    assert node.writes == ["capacity"]


async def test_what_the_kubelet_zeroed_or_somebody_removed_is_written_again() -> None:
    node = ANode()
    async with publishing(node) as publisher:
        publisher.publish(EIGHT)
        await node.until_writes(2)
        node.capacity[COUNT] = "0"
        node.annotations.clear()
        publisher.node_applied(node.as_object())
        await node.until_writes(4)
    assert (node.capacity[COUNT], list(node.annotations)) == ("8", [INVENTORY])


async def test_a_refused_write_is_a_problem_until_it_succeeds() -> None:
    node = ANode()
    node.refusals = 1
    async with publishing(node) as publisher:
        publisher.publish(inventory(16))
        async with asyncio.timeout(60):
            await node.refused.wait()
        assert publisher.problem == "the Node could not be written: nodes is forbidden"
        await node.until_writes(2)
        assert publisher.problem == ""


def test_the_unit_of_a_plugin_before_this_one_is_read_from_the_node() -> None:
    node = ANode()
    publisher = CardsPublisher(ENFLAME, "node-1", node.client, rng=random.Random(1), pods_per_count=1)
    assert publisher.published_unit() is None
    node.annotations[INVENTORY] = encode_inventory(inventory(16, unit="0.1"))
    publisher.node_applied(node.as_object())
    assert publisher.published_unit() == "0.1"
    node.annotations[INVENTORY] = "not ours"
    publisher.node_applied(node.as_object())
    assert publisher.published_unit() is None


@pytest.mark.parametrize(
    ("vendor", "count", "shown"),
    [
        pytest.param(ENFLAME, CardCount.AUTO, "8", id="the manual shows the plain number"),
        pytest.param(ALIYUN, CardCount.AUTO, "8000", id="pods that ask for it share cards"),
        pytest.param(ALIYUN, CardCount.EXACT, "8", id="exact"),
        pytest.param(ENFLAME, CardCount.THOUSANDS, "8000", id="thousands"),
    ],
)
async def test_the_count_is_of_cards_or_a_thousand_for_each(vendor: Vendor, count: CardCount, shown: str) -> None:
    node = ANode()
    async with publishing(node, vendor, count.pods_per_count(vendor)) as publisher:
        publisher.publish(EIGHT)
        await node.until_writes(2)
    assert node.capacity == {vendor.count_resource: shown}


async def test_a_count_that_the_api_server_wrote_in_its_own_way_is_not_written_again() -> None:
    node = ANode()
    node.capacity[ALIYUN.count_resource] = "8k"
    async with publishing(node, ALIYUN, ALIYUN.pods_per_count) as publisher:
        publisher.publish(EIGHT)
        await node.until_writes(1)
        publisher.publish(SEVEN)
        await node.until_writes(3)
    assert node.writes == ["annotations", "annotations", "capacity"]
