"""The plugin offers no card that another system hands out on its node, and says which system and what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.node.node_settings import OtherSystems
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare_playground.apiserver.faults import Delay, FailBefore, Fault
from tests.api_objects import merge_into
from tests.neighbours import read_objects
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import PluginRig
from tests.protocol.reference_plugin import ReferencePlugin, devices


@asynccontextmanager
async def next_to(name: str, **plugin: Any) -> AsyncIterator[PluginRig]:
    """A plugin that is not started yet, on a node of a system."""
    async with PluginRig(plugin=plugin, plugin_first=False) as rig, AsyncExitStack() as stack:
        await put_neighbour(rig, stack, name)
        yield rig


async def put_neighbour(rig: PluginRig, stack: AsyncExitStack, name: str) -> None:
    """Put a system's objects into the API server; if it serves whole cards, the kubelet has its plugin."""
    node, *others = read_objects(name)
    merge_into(rig.api, "Node", NODE, {"metadata": node["metadata"]})
    merge_into(rig.api, "Node", NODE, {"status": node["status"]}, status_only=True)
    for each in others:
        rig.api.registry.put(each)
    whole = ALIYUN.whole_card_resource
    if whole in node["status"]["allocatable"]:
        listing = devices(["GPU-0a", "GPU-0b"])
        other = await stack.enter_async_context(ReferencePlugin(rig.root / "device-plugins", whole, listing))
        await other.register()


@pytest.mark.parametrize(
    ("name", "vendor", "words"),
    [
        ("hami-nvidia", ALIYUN, "HAMi (annotation hami.io/node-nvidia-register)"),
        ("kai", ALIYUN, "another plugin serves nvidia.com/gpu on this node: the kubelet was sent 2 device ids"),
        ("nvidia-device-plugin", ALIYUN, "Keep NVIDIA's device plugin or GPU Operator off this node (with"),
        ("nvidia-dra", ALIYUN, "NVIDIA's DRA driver (ResourceSlices of gpu.nvidia.com)"),
        ("enflame-gcushare", ENFLAME, "Enflame's gcushare 3.6 (enflame.com/shared-gcu 12)"),
    ],
)
async def test_each_known_system_is_named_and_the_resource_left_unregistered(
    name: str, vendor: Vendor, words: str
) -> None:
    async with next_to(name, vendor=vendor) as rig:
        await rig.start_plugin()
        await rig.until(lambda: words in rig.problem("registration"), f"it names the system: {name}")
        assert "--other-systems allow if the cards are divided" in rig.problem("registration")
        assert vendor.memory_resource not in rig.kubelet.counts()
        await rig.until(
            lambda: rig.events("OtherSystemServes") or rig.events("SecondPluginServes"), "an event on the Node says so"
        )
        assert (await rig.get("/readyz"))[0] == 503


async def test_memory_and_whole_cards_are_kept_back_by_one_finding() -> None:
    """Both parts register at the same time: the slices are listed for both, and one event names the system."""
    async with next_to("nvidia-dra", vendor=ALIYUN, mode=GrantMode.BOTH) as rig:
        lists = rig.api.faults.on(Fault(Delay(0.2), path="/resourceslices"))
        await rig.start_plugin()
        parts = ("registration", "wholeRegistration")
        await rig.until(
            lambda: all("NVIDIA's DRA driver" in rig.problem(part) for part in parts), "both parts name the system"
        )
        assert lists.hits == 1
        await rig.event("OtherSystemServes")


@pytest.mark.parametrize(("name", "vendor"), [("kai", ALIYUN), ("enflame-gcushare", ENFLAME)])
async def test_an_admin_who_divided_the_cards_has_both(name: str, vendor: Vendor) -> None:
    async with next_to(name, vendor=vendor, other_systems=OtherSystems.ALLOW) as rig:
        await rig.start_plugin()
        await rig.until_allocatable(vendor.memory_resource, 128)
        assert rig.problem("registration") == ""


async def test_the_systems_of_other_vendors_are_no_obstacle() -> None:
    async with next_to("vgpu-manager") as rig:
        await rig.start_plugin()
        await rig.until_units(128)


async def test_memory_units_of_another_plugin_are_left_alone_and_taken_over_when_it_ends() -> None:
    """As HAMi's mock plugin lists them: the same resource name, in MiB."""
    async with PluginRig(cards=(16, 16), plugin_first=False) as rig:
        mib = devices([f"mock-devices-id-{number}" for number in range(2 * 16 * 1024)])
        async with ReferencePlugin(rig.root / "device-plugins", ENFLAME.memory_resource, mib) as other:
            await other.register()
            await rig.until_units(32 * 1024)
            await rig.start_plugin()
            await rig.until(lambda: "another plugin serves" in rig.problem("registration"), "it stands back")
            assert "32768 device ids such as 'mock-devices-id-0'" in rig.problem("registration")
        await rig.until(lambda: not rig.problem("registration"), "it takes the place")
        await rig.until_units(32)


async def test_the_system_is_looked_for_again_when_the_kubelet_restarts() -> None:
    async with PluginRig(cards=(16, 16)) as rig:
        node, *_ = read_objects("enflame-gcushare")
        merge_into(rig.api, "Node", NODE, {"status": node["status"]}, status_only=True)
        await rig.kubelet.restart()
        await rig.until(lambda: "Enflame's gcushare 3.6" in rig.problem("registration"), "it was found")


async def test_without_the_right_to_list_slices_the_plugin_serves_all_the_same() -> None:
    async with next_to("nvidia-dra", vendor=ALIYUN) as rig:
        rig.api.faults.on(Fault(FailBefore(403, "Forbidden", "no such right"), path="/resourceslices"))
        await rig.start_plugin()
        await rig.until_allocatable(ALIYUN.memory_resource, 128)
