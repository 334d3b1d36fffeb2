"""The list that the kubelet is sent, and who is woken when it changes."""

import asyncio
from collections.abc import Mapping

import pytest

from gcushare.core.cards import Inventory
from gcushare.device_plugin.kubelet.device_list import MemoryDeviceList
from gcushare.wire.kubelet.device_ids import KUBELET_MESSAGE_LIMIT_BYTES, device_ids_of_card
from gcushare.wire.protos import deviceplugin_pb2 as pb
from tests.builders import card, inventory


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


def test_every_unit_of_every_card_is_reported_once() -> None:
    table = MemoryDeviceList()
    assert offer(table, inventory(3, 2))
    assert listed(table.message) == dict.fromkeys([*device_ids_of_card(0, 3), *device_ids_of_card(1, 2)], "Healthy")
    assert table.size == 5


def test_of_a_sick_card_nothing_is_healthy_while_it_is_not_known_what_pods_hold() -> None:
    table = MemoryDeviceList()
    offer(table, inventory(2, card(1, 2, sick=True)))
    assert [health for _, health in sorted(listed(table.message).items())] == ["Healthy"] * 2 + [""] * 2


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


async def test_every_stream_gets_the_list_now_and_after_each_change() -> None:
    table = MemoryDeviceList()
    offer(table, inventory(1))
    streams = [table.follow(), table.follow()]
    assert {len(listed(await anext(stream))) for stream in streams} == {1}
    assert table.streams == 2
    waiting = [asyncio.ensure_future(anext(stream)) for stream in streams]
    offer(table, inventory(2))
    assert [len(listed(message)) for message in await asyncio.gather(*waiting)] == [2, 2]


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
