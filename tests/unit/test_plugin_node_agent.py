"""What a node offers of its cards, what the kubelet is sent of it, what is published when, and what people hear."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cards.health import CardsSnapshot
from gcushare.core.cards import Health
from gcushare.core.errors import ForbiddenError, Refused
from gcushare.core.units import GIB
from gcushare.device_plugin.node.inventory import Offer, plan_inventory
from gcushare.device_plugin.node.publisher import CardsPublisher
from gcushare.device_plugin.plugin_settings import CardCount, GrantMode
from gcushare.node.node_settings import Reserve
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.objects import Node, NodeStatus, ObjectMeta
from tests.builders import card, inventory, present
from tests.played_api import Asked, PlayedApi
from tests.running import running
from tests.unit.node_agent_rig import Rig, make_rig
from tests.unit.plugin_pods import whole_pod


def cards(*gib: float) -> CardsSnapshot:
    return CardsSnapshot(tuple(card(index, memory_bytes=int(size * GIB)) for index, size in enumerate(gib)))


def offer(unit: str = "1", **changes: object) -> Offer:
    return Offer(vendor=ENFLAME, unit=unit, **changes)  # type: ignore[arg-type]  # a test's shorthand


def test_cards_of_one_node_may_differ_in_size_and_health() -> None:
    larger = card(1, memory_bytes=int(32.5 * GIB), sick=True, reason="broken")
    inventory = plan_inventory(CardsSnapshot((card(0), larger)), offer())
    assert [(card.units, card.health) for card in inventory.cards] == [(16, Health.HEALTHY), (32, Health.UNHEALTHY)]
    assert inventory.cards[1].reason == "broken"


def test_8_cards_of_32_gb_at_a_thousandth_which_the_manual_calls_impossible() -> None:
    assert plan_inventory(cards(*[32] * 8), offer("0.001")).total_units == 256_000


def test_8_cards_of_32_gib_in_mib_are_exactly_what_the_kubelet_takes() -> None:
    assert plan_inventory(cards(*[32] * 8), Offer(vendor=ALIYUN, unit="MiB")).total_units == 262_144


def test_what_does_not_fit_names_unit_cards_bytes_limit_and_the_finest_that_fits() -> None:
    with pytest.raises(Refused) as caught:
        plan_inventory(cards(*[80] * 8), offer("0.001"))
    text = str(caught.value)
    assert "memory unit '0.001' with 8 cards gives 640000 units, a message of 10392592 bytes of 4194304" in text
    assert "the finest unit that fits is 0.01" in text


@pytest.mark.parametrize(("gib", "unit"), [(16, "0.001"), (32, "0.001"), (80, "0.01"), (1000, "0.01"), (4000, "0.1")])
def test_auto_takes_the_finest_unit_of_the_vendor_that_fits(gib: int, unit: str) -> None:
    assert plan_inventory(cards(*[gib] * 8 if gib < 1000 else [gib]), offer("auto")).unit.name == unit


def test_auto_stays_within_the_vendors_words() -> None:
    assert plan_inventory(cards(32), Offer(vendor=ALIYUN, unit="auto")).unit.name == "MiB"


@pytest.mark.parametrize(
    ("reserve", "units", "reserved"),
    [
        (Reserve(), 16, 0),
        (Reserve(bytes=GIB), 15, 1),
        (Reserve(bytes=GIB + 1), 14, 2),
        (Reserve(percent=5), 15, 1),
        (Reserve(percent=100), 0, 16),
        (Reserve(bytes=99 * GIB), 0, 16),
    ],
)
def test_a_reserve_is_kept_back_in_whole_units(reserve: Reserve, units: int, reserved: int) -> None:
    (card,) = plan_inventory(cards(16), offer(reserve=reserve, mode=GrantMode.BOTH)).cards
    assert (card.units, card.reserved_units) == (units, reserved)


@pytest.mark.parametrize(
    ("sizes", "unit", "reserve"),
    [
        pytest.param((0.25, 0.5), "1", Reserve(), id="small cards"),
        pytest.param((16, 16), "1", Reserve(bytes=20 * GIB), id="all is reserved"),
        pytest.param((8,), "0.1", Reserve(percent=100.0), id="all in percent"),
    ],
)
def test_cards_without_a_single_unit_are_refused_with_the_reason(
    sizes: tuple[float, ...], unit: str, reserve: Reserve
) -> None:
    with pytest.raises(Refused, match=f"as much as one unit, '{unit}', after the reserve: choose a smaller --reserve"):
        plan_inventory(cards(*sizes), offer(unit, reserve=reserve))
    for mode in (GrantMode.WHOLE, GrantMode.BOTH):
        assert plan_inventory(cards(*sizes), offer(unit, reserve=reserve, mode=mode)).total_units == 0
    assert plan_inventory(cards(*sizes, 40), offer(unit, reserve=Reserve())).total_units > 0


@pytest.fixture
def rig() -> Rig:
    return make_rig()


def test_a_source_that_fails_for_a_while_takes_no_card_away(rig: Rig) -> None:
    rig.see(16, 16)
    rig.agent.on_cards_change(CardsSnapshot((), problem="the library does not answer"))
    assert rig.listed() == (32, 32)
    assert rig.agent.problem == "the library does not answer"


@pytest.mark.parametrize("cordon", ["u9", "0,u9"], ids=["alone", "with a card"])
def test_a_cordon_that_names_nothing_is_reported_once(rig: Rig, cordon: str) -> None:
    rig.see(16)
    for _ in range(2):
        rig.node(cordon=cordon)
        rig.hold()
    assert rig.heard.reasons().count("UnknownCordon") == 1


def test_auto_keeps_its_unit_while_it_fits_and_changes_it_only_when_no_one_holds_any() -> None:
    rig = make_rig(unit="auto")
    rig.see(300)
    assert rig.agent.inventory is not None
    assert rig.agent.inventory.unit.name == "0.01"
    rig.see(16)
    assert rig.agent.inventory.unit.name == "0.01"
    rig.hold(a=device_ids_of_card(0, 4))
    rig.see(4000)
    assert "changes from '0.01' to '0.1'" in rig.agent.problem
    rig.hold()
    assert rig.agent.inventory.unit.name == "0.1"


def test_a_card_that_does_not_fit_the_unit_keeps_no_health_and_no_cordon_of_the_others_back() -> None:
    rig = make_rig(unit="0.01")
    rig.see(80, 80)
    rig.hold()
    assert rig.listed() == (16000, 16000)
    rig.see(80, 80, 4000, sick={1: "lost"})
    assert "no unit fits" in rig.agent.problem or "the finest unit that fits" in rig.agent.problem
    assert rig.agent.problem.endswith("the cards of before (0,1) stay offered in units of '0.01', no others")
    assert rig.listed() == (16000, 8000)
    assert rig.parts.publisher.wanted == rig.agent.inventory
    assert "CardUnhealthy" in rig.heard.reasons()
    rig.node(cordon="0")
    assert rig.listed() == (16000, 0)
    rig.node()
    rig.see(80, 80)
    assert (rig.agent.problem, rig.listed()) == ("", (16000, 16000))


def test_the_inventory_is_not_published_before_the_pods_are_known() -> None:
    """Of a pod that is not known podresources shows a part: its ended init container had whole cards in addition."""
    rig = make_rig(mode=GrantMode.BOTH, lists_pods=False)
    rig.see(16, 16)
    rig.hold(unknown=["card-1"])
    rig.node()
    assert rig.parts.publisher.wanted is None
    rig.agent.pods_retained(frozenset())
    assert rig.parts.publisher.wanted is not None


def test_a_card_that_was_replaced_by_one_that_does_not_fit_is_unhealthy() -> None:
    rig = make_rig(unit="0.01")
    rig.see(80, 80)
    rig.see(80, 4000, uuids={1: "new"})
    assert rig.listed() == (16000, 8000)
    assert rig.agent.inventory is not None
    assert [card.uuid for card in rig.agent.inventory.cards] == ["u0", "u1"]
    assert "replaced" in rig.agent.inventory.cards[1].reason


@pytest.mark.slow
@pytest.mark.parametrize(
    ("others", "gone", "waiting", "size"),
    [
        pytest.param(range(7), frozenset(), (9, 7), 4200564, id="its number is a high one"),
        pytest.param(range(8), frozenset({0}), (8, None), 4718592, id="a lost card is listed next to it"),
    ],
)
def test_a_card_whose_units_do_not_fit_beside_held_numbers_waits_alone(
    others: range, gone: frozenset[int], waiting: tuple[int, int | None], size: int
) -> None:
    rig = make_rig(unit="MiB", vendor=ALIYUN)
    rig.hold(a=device_ids_of_card(0, 4))
    shown = [card(index, 32) for index in others]
    new = card(waiting[0], 32, minor=waiting[1], uuid="U-new")
    rig.agent.on_cards_change(CardsSnapshot((*shown, new), gone=gone))
    inventory = present(rig.agent.inventory)
    assert [card.uuid for card in inventory.cards] == [card.uuid for card in shown]
    assert (inventory.unit.name, rig.agent.problem) == ("MiB", "")
    assert [(card.index, card.uuid) for card in inventory.left_out] == [(new.minor_number, "U-new")]
    assert f"{size} bytes" in inventory.left_out[0].reason
    assert rig.heard.reasons() == ["CardLeftOut"]


@pytest.mark.parametrize("mode", [GrantMode.WHOLE, GrantMode.BOTH])
@pytest.mark.parametrize("is_sick", [False, True])
def test_a_card_that_takes_no_pods_is_not_offered_whole_once_its_pod_was_deleted_by_force(
    mode: GrantMode, is_sick: bool
) -> None:
    rig = make_rig(mode=mode)
    rig.see(16, 16, sick={0: "off the bus"} if is_sick else {})
    rig.node(cordon="" if is_sick else "0")
    held = whole_pod("w", cards="0", assigned=True)
    rig.agent.pod_applied(held)
    rig.hold(w=["card-0"])
    assert rig.healthy(whole=True) == ["card-0", "card-1"]
    rig.agent.pod_deleted(held)
    rig.hold()
    assert rig.healthy(whole=True) == ["card-1"]


def test_a_lost_card_that_no_pod_holds_keeps_no_other_card_from_the_kubelet() -> None:
    rig = make_rig(unit="MiB", vendor=ALIYUN)
    rig.hold(a=device_ids_of_card(0, 4))
    shown = [card(index, 32) for index in range(9)]
    rig.agent.on_cards_change(CardsSnapshot(tuple(shown), gone=frozenset({3})))
    assert rig.agent.inventory is not None
    assert [card.index for card in rig.agent.inventory.cards] == [0, 1, 2, 4, 5, 6, 7, 8]
    assert (rig.agent.inventory.left_out, rig.heard.reasons()) == ((), [])


CARDS = st.tuples(st.integers(1, 8), st.integers(0, 8), st.sampled_from(["", "sick", "cordoned", "smaller", "gone"]))
"""Units, how many of them pods hold, and what becomes of the card."""


@pytest.mark.slow
@given(cards=st.lists(CARDS.filter(lambda card: card[0] >= card[1]), min_size=1, max_size=4))
def test_the_kubelet_counts_what_pods_hold_and_what_is_free_on_cards_that_take_pods_and_nothing_else(
    cards: list[tuple[int, int, str]],
) -> None:
    """kube-scheduler subtracts what all pods ask for from that count, whatever became of their cards."""
    rig = make_rig()
    rig.see(*(units for units, _, _ in cards), 1)
    held = [device_ids_of_card(index, count) for index, (_, count, _) in enumerate(cards)]
    rig.hold(**{f"p{index}": ids for index, ids in enumerate(held) if ids})
    sizes = [{"gone": 0, "smaller": max(1, count - 1)}.get(trouble, units) for units, count, trouble in cards]
    rig.see(*sizes, 1, sick={index: "off the bus" for index, (*_, trouble) in enumerate(cards) if trouble == "sick"})
    rig.node(cordon=",".join(str(index) for index, (*_, trouble) in enumerate(cards) if trouble == "cordoned"))

    open_cards = (pair for pair in zip(sizes, cards, strict=True) if pair[1][2] not in ("sick", "cordoned"))
    free = 1 + sum(max(0, size - count) for size, (_, count, _) in open_cards)
    healthy = rig.healthy()
    assert set(chain.from_iterable(held)) <= set(healthy)
    assert len(healthy) == len(set(healthy)) == sum(map(len, held)) + free


COUNT, INVENTORY = ENFLAME.count_resource, ENFLAME.inventory_annotation


EIGHT, SEVEN = inventory(*[16] * 8), inventory(*[16] * 7)


class ANode(PlayedApi):
    """A Node whose changes come back to the publisher, as by a watch."""

    def __init__(self) -> None:
        self.annotations: dict[str, str] = {}
        self.capacity: dict[str, str] = {}
        self.writes: list[str] = []
        self.failure: Exception | None = None
        self.changed = asyncio.Event()

    def as_object(self) -> Node:
        return Node(metadata=ObjectMeta(annotations=self.annotations), status=NodeStatus(capacity=self.capacity))

    async def answer(self, asked: Asked) -> Node:
        if self.failure is not None:
            raise self.failure
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
    node.failure = ForbiddenError("nodes is forbidden")
    async with publishing(node) as publisher:
        publisher.publish(inventory(16))
        for _ in range(5):
            await asyncio.sleep(0)
        assert publisher.problem == "the Node could not be written: nodes is forbidden"
        node.failure = None
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
