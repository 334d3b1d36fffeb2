"""The plugin with whole cards and other systems on its node: no card is given in two ways, and it says what to do."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest

from gcushare.device_plugin.plugin_settings import GrantMode
from gcushare.node.node_settings import OtherSystems
from gcushare.vendors import ALIYUN, ENFLAME, Vendor
from gcushare_playground.apiserver.faults import Delay, FailBefore, Fault
from gcushare_playground.kubelet.faults import PodResourcesMode
from tests.api_objects import merge_into
from tests.neighbours import read_objects
from tests.protocol.node_rig import NODE
from tests.protocol.plugin_rig import RESOURCE, WHOLE, PluginRig
from tests.protocol.reference_plugin import ReferencePlugin, devices

BOTH = {"mode": GrantMode.BOTH}


async def test_a_whole_card_is_given_with_its_device_nodes_and_no_soft_limits_and_its_memory_is_closed() -> None:
    async with PluginRig(plugin=BOTH) as rig:
        await rig.run_whole("w", cards="3")
        assert rig.visible("w") == "3"
        view = rig.view("w")
        assert set(view.environment) == {"ENFLAME_VISIBLE_DEVICES"}
        assert {device.container_path for device in view.devices} == {"/dev/gcu3", "/dev/gcuctl"}
        assert rig.annotation("w", "gcushare.io/card-mode") == "whole"
        assert rig.annotation("w", "gcushare.io/card-uuid") == "GCU-3"
        await rig.until_allocatable(RESOURCE, 7 * 16)
        assert rig.kubelet.counts()[WHOLE].allocatable == 8, "a device that is held stays healthy"


async def test_a_card_changes_its_use_as_soon_as_the_pod_before_has_ended() -> None:
    async with PluginRig(cards=(16,), plugin=BOTH) as rig:
        await rig.run("a", 4, card=0)
        await rig.until_allocatable(WHOLE, 0)
        await rig.finish("a")
        await rig.until_allocatable(WHOLE, 1)
        await rig.run_whole("w", cards="0")
        await rig.until_allocatable(RESOURCE, 0)
        await rig.delete("w")
        await rig.until_allocatable(RESOURCE, 16)
        await rig.run("b", 16, card=0)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
async def test_of_two_pods_that_race_for_one_card_in_the_two_ways_exactly_one_starts(seed: int) -> None:
    async with PluginRig(cards=(16,), plugin=BOTH, seed=seed, batch_window_s=0.05) as rig:
        rig.bind("shares", 4, card=0)
        rig.bind_whole("takes-all", cards="0")
        await rig.until(
            lambda: (
                sorted(rig.pod(name)["status"].get("phase", "") for name in ("shares", "takes-all"))
                == ["Failed", "Running"]
            ),
            f"one runs and one is refused, {seed=}",
        )
        loser = next(name for name in ("shares", "takes-all") if rig.pod(name)["status"]["phase"] == "Failed")
        message = rig.pod(loser)["status"]["message"]
        by_plugin = {"takes-all": "0 free on this node (card 0: shared)", "shares": "(card 0: in use as a whole)"}
        assert by_plugin[loser] in message or "no healthy devices present" in message, message
        winner = {"takes-all": "is shared by default/shares", "shares": "is in use as a whole by default/takes-all"}
        assert winner[loser] in await rig.event("CardInOtherUse")


@pytest.mark.parametrize("is_new", [False, True], ids=["the same plugin", "a new plugin"])
async def test_a_kubelet_that_shows_no_pod_after_its_start_opens_no_card_that_is_in_use(is_new: bool) -> None:
    async with PluginRig(cards=(16,) * 3, plugin=BOTH) as rig:
        rig.bind("a", 4, card=0)
        rig.bind_whole("w", cards="1")
        await rig.until_recorded("a", "w")
        rig.annotate_node("gcushare.io/enflame-cordoned-cards", "0")
        await rig.until_allocatable(RESOURCE, 4 + 16)
        rig.kubelet.faults.podresources = PodResourcesMode.FORGET
        if is_new:
            await rig.stop_plugin()
        await rig.kubelet.restart()
        if is_new:
            await rig.start_plugin()
        await rig.until_allocatable(RESOURCE, 4 + 16)
        await rig.until_allocatable(WHOLE, 2)
        looks = rig.app.observed.reconciler.checks
        await rig.until(lambda: rig.app.observed.reconciler.checks > looks + 3, "the record was read again")
        assert rig.kubelet.counts()[RESOURCE].allocatable == 4 + 16, "the ids that the first pod holds, and a free card"
        assert rig.kubelet.counts()[WHOLE].allocatable == 2, "the second pod's card, and the free one"
        rig.kubelet.faults.podresources = PodResourcesMode.ANSWER
        await rig.run_whole("x", cards="2")
        assert [rig.pod(name)["status"]["phase"] for name in ("a", "w", "x")] == ["Running"] * 3


async def test_with_mode_whole_the_plugin_alone_serves_cards_without_any_extender() -> None:
    async with PluginRig(cards=(16,) * 4, plugin={"mode": GrantMode.WHOLE}, plugin_first=False) as rig:
        rig.write_cards({index: {"numa": index % 2} for index in range(4)})
        await rig.start_plugin()
        await rig.until_allocatable(WHOLE, 4)
        assert RESOURCE not in rig.kubelet.counts()
        await rig.run_whole("pair", 2)
        assert rig.visible("pair") in {"0,2", "1,3"}, "the two are of one NUMA node"
        rig.bind_whole("more", 3)
        assert "Requested: 3, Available: 2" in await rig.until_failed("more")
        assert rig.published().modes == ("whole",)


async def test_another_plugin_of_the_whole_card_resource_is_left_alone_and_its_place_taken_when_it_ends() -> None:
    async with PluginRig(cards=(16, 16), plugin=BOTH, plugin_first=False) as rig:
        directory = rig.root / "device-plugins"
        async with ReferencePlugin(directory, WHOLE, devices(["GCU-a", "GCU-b"])) as other:
            await other.register()
            await rig.until_allocatable(WHOLE, 2)
            await rig.until(lambda: rig.node()["status"]["allocatable"].get(WHOLE) == "2", "the Node counts them")
            await rig.start_plugin()
            for part in ("registration", "wholeRegistration"):
                await rig.until(partial(_names_other_plugin, rig, part), "it stands back: a card would be given twice")
            await rig.event("SecondPluginServes")
            assert RESOURCE not in rig.kubelet.counts()
            assert (await rig.get("/readyz"))[0] == 503
        await rig.until(lambda: not rig.problem("wholeRegistration"), "it takes the place")
        await rig.until_units(32)
        await rig.run("a", 4, card=1)
        await rig.until_allocatable(WHOLE, 1)


def _names_other_plugin(rig: PluginRig, part: str) -> bool:
    return "another plugin serves" in rig.problem(part) and "'GCU-a'" in rig.problem(part)


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
        await rig.until(lambda: not rig.problem("registration"), "it is registered")


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
