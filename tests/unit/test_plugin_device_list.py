"""The list that the kubelet is sent, which units of a closed card stay healthy, and how calls with a defect end."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gcushare.core.cards import Inventory
from gcushare.device_plugin.kubelet.device_list import HeldIds, MemoryDeviceList
from gcushare.device_plugin.kubelet.server import CALLS, DevicePluginService
from gcushare.device_plugin.pods.allocations import KubeletAllocations
from gcushare.wire.kubelet.device_ids import KUBELET_MESSAGE_LIMIT_BYTES, device_ids_of_card
from gcushare.wire.kubelet.plugin_messages import device_ids
from gcushare.wire.protos import deviceplugin_pb2 as pb
from tests.builders import card, inventory
from tests.unit.node_agent_rig import World, allocations, reconciler_of
from tests.unit.plugin_pods import UNITS, UUIDS, in_use, init_pod, pod, reconcile, store_of, whole_pod


def listed(message: bytes) -> dict[str, str]:
    return {device.ID: device.health for device in pb.ListAndWatchResponse.FromString(message).devices}


def offer(
    table: MemoryDeviceList,
    cards: Inventory,
    *,
    closed: tuple[int, ...] = (),
    held: Mapping[int, set[str]] | None = None,
) -> bool:
    return table.offer(cards, {index: frozenset((held or {}).get(index, ())) for index in closed})


@pytest.mark.parametrize("sick", [False, True], ids=["cordoned", "sick"])
def test_of_a_closed_card_only_what_somebody_holds_stays_healthy(sick: bool) -> None:
    table = MemoryDeviceList()
    first, second = device_ids_of_card(0, 2)
    offer(table, inventory(card(0, 2, sick=sick)), closed=(0,), held={0: {second}})
    assert listed(table.message) == {first: "", second: "Healthy"}


@pytest.mark.slow
def test_what_somebody_holds_beyond_a_cards_units_or_of_a_lost_card_is_listed_as_long_as_the_list_stays_readable() -> (
    None
):
    table = MemoryDeviceList()
    held = {0: set(device_ids_of_card(0, 3)), 9: set(device_ids_of_card(9, 2))}
    offer(table, inventory(2, 2), closed=(0, 9), held=held)
    assert listed(table.message) == dict.fromkeys([*held[0], *device_ids_of_card(1, 2), *held[9]], "Healthy")
    assert table.size == 7

    full = inventory(*[32_768] * 8)
    offer(table, full, closed=(9,), held=held)
    assert len(table.message) == KUBELET_MESSAGE_LIMIT_BYTES == len(listed(table.message)) * 16


@pytest.mark.slow
def test_a_full_nodes_list_stays_within_the_kubelets_limit_when_a_card_falls_sick() -> None:
    table = MemoryDeviceList()
    offer(table, inventory(*[32_768] * 8))
    assert len(table.message) == KUBELET_MESSAGE_LIMIT_BYTES
    offer(table, inventory(*(card(index, 32_768, sick=index == 3) for index in range(8))))
    assert len(table.message) <= KUBELET_MESSAGE_LIMIT_BYTES
    devices = listed(table.message)
    assert len(devices) == 262_144
    assert {devices[device_id] for device_id in device_ids_of_card(3, 32_768)} == {""}
    assert sum(health == "Healthy" for health in devices.values()) == 7 * 32_768


def test_what_changes_nothing_for_the_kubelet_wakes_no_one() -> None:
    table = MemoryDeviceList()
    assert offer(table, inventory(2))
    assert not offer(table, inventory(2))


async def test_hanging_up_ends_the_open_streams_and_not_the_next() -> None:
    table = MemoryDeviceList()
    offer(table, inventory(1))
    stream = table.follow()
    await anext(stream)
    waiting = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    table.hang_up()
    with pytest.raises(StopAsyncIteration):
        await waiting
    assert table.streams == 0
    assert await anext(table.follow()) == table.message


FOUR, EIGHT = device_ids_of_card(0, 4), device_ids_of_card(0, 8)


async def test_a_card_of_a_pod_with_init_containers_is_closed_only_when_the_checkpoint_has_shown_all_its_ids() -> None:
    world, store = World(), store_of(pod("b", 4, card=1), init_pod("a", 8, 4))
    reconciler, held = reconciler_of(world, store), HeldIds(store)
    world.record = allocations({"d/a": FOUR, "d/b": device_ids_of_card(1, 4)})
    of_b = frozenset(device_ids_of_card(1, 4))
    await reconciler.check()
    assert held.of_cards(world.read, frozenset({0, 1})) == {1: of_b}, "no checkpoint can be read"
    world.checkpoint = KubeletAllocations("checkpoint")
    world.checkpoint.add("uid-a", "i0", device_ids(EIGHT))
    await reconciler.check()
    world.checkpoint = None
    await reconciler.check()
    assert held.of_cards(world.read, frozenset({0, 1})) == {0: frozenset(EIGHT), 1: of_b}


def test_a_card_of_a_pod_in_doubt_is_closed_only_when_the_kubelet_was_asked_about_it() -> None:
    store = store_of(memory={})
    store.pod_applied(pod("a", 4, card=0, assigned=True))
    held = HeldIds(store)
    assert held.of_cards(allocations({}), frozenset({0})) == {}
    reconcile(store, {"uid-a": {"c0": {0: 4}}})
    assert held.of_cards(allocations({"uid-a": FOUR}), frozenset({0})) == {0: frozenset(FOUR)}


@pytest.mark.parametrize("is_record_away", [False, True], ids=["not shown yet", "record away"])
def test_what_was_handed_out_since_the_record_was_read_is_held(is_record_away: bool) -> None:
    store = store_of(pod("a", 4, card=0), memory={})
    held = HeldIds(store)
    record = allocations({})
    assert held.of_cards(record, frozenset({0})) == {0: frozenset()}
    store.on_allocate("uid-a", "c0", {0: 4}, 0.0, ids=device_ids(FOUR))
    if is_record_away:
        store.end_pending(1.0, is_readable=False)
    assert held.of_cards(record, frozenset({0, 1})) == {0: frozenset(FOUR), 1: frozenset()}
    reconcile(store, {"uid-a": {"c0": {0: 4}}})
    assert held.of_cards(allocations({"uid-a": FOUR}), frozenset({0})) == {0: frozenset(FOUR)}


async def test_whole_cards_of_init_containers_that_are_others_than_planned_stay_known_at_every_look() -> None:
    world, store = World(), store_of(whole_pod("w", 1, "2,3", init=2))
    reconciler = reconciler_of(world, store)
    world.record = allocations({"d/w": ["card-5"]})
    world.checkpoint = allocations({"uid-w": ["card-5"]}, "checkpoint")
    world.checkpoint.add_whole("uid-w", "i0", ["card-4", "card-5"])
    for _ in range(6):
        await reconciler.check()
        assert in_use(store) == (set(), {4, 5})
        assert [(write.cards, write.corrected_from) for write in store.writes(UUIDS, UNITS, 1)] == [((4, 5), (2, 3))]


class Broken:
    """An allocator with a defect."""

    async def prefer(self, _container: object) -> list[str]:
        raise ZeroDivisionError

    async def allocate(self, _ids: object) -> object:
        raise ZeroDivisionError


@pytest.mark.parametrize("call", CALLS)
async def test_a_defect_is_counted_and_not_hidden(call: str) -> None:
    seen: list[tuple[str, str]] = []
    service = DevicePluginService(
        MemoryDeviceList(),
        cast(Any, Broken()),
        clock=lambda: 0.0,
        observe=lambda name, _seconds, error: seen.append((name, error)),
        pre_start=cast(Any, Broken().allocate),
    )
    details = SimpleNamespace(method=f"/v1beta1.DevicePlugin/{call}")
    method = cast(Any, service.handler().service(cast(Any, details))).unary_unary
    with pytest.raises(ZeroDivisionError):
        await method(b"\x0a\x02\x0a\x00" if call == "GetPreferredAllocation" else b"\x0a\x00", None)
    assert seen == [(call, "defect")]
