"""How the plugin finds out that another one serves its whole-card resource."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE, Inventory
from gcushare.core.units import parse_memory_unit
from gcushare.device_plugin.kubelet.conflicts import ConflictingPluginWatch
from gcushare.device_plugin.node.publisher import ResourceCounts

RESOURCE = "nvidia.com/gpu"
REMOVE = "Memory is not offered next to it: remove that plugin from this node"


@dataclass
class World:
    """The kubelet's checkpoint, what the Node counts, and what was reported; ``modes`` are those published before."""

    path: Path
    counted: tuple[int, int] | None = (8, 8)
    modes: tuple[str, ...] = ()
    reported: list[str] = field(default_factory=list)

    @property
    def former(self) -> Inventory | None:
        return Inventory(unit=parse_memory_unit("1"), cards=(), modes=self.modes) if self.modes else None

    @former.setter
    def former(self, inventory: Inventory | None) -> None:
        self.modes = inventory.modes if inventory is not None else ()

    def counts(self, resource: str) -> ResourceCounts | None:
        assert resource == RESOURCE
        return ResourceCounts(*self.counted) if self.counted is not None else None

    def register(self, *ids: str, resource: str = RESOURCE) -> None:
        """Have the kubelet's checkpoint name these ids."""
        data = {"PodDeviceEntries": None, "RegisteredDevices": {resource: list(ids)}}
        self.path.write_text(json.dumps({"Data": data, "Checksum": 1}))

    def watch(self, part: str = SERVES_WHOLE, *, is_served: bool = True) -> ConflictingPluginWatch:
        """Watch whole cards, or the memory units that have the same resource name here."""
        return ConflictingPluginWatch(
            RESOURCE, part, checkpoint=self.path, node=self, report=self.reported.append, is_served=is_served
        )


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "kubelet_internal_checkpoint")


@pytest.mark.parametrize(
    ("part", "counted", "ids", "advice"),
    [
        pytest.param(SERVES_WHOLE, (8, 8), ("GPU-1", "GPU-2"), "--mode memory", id="usable"),
        pytest.param(SERVES_WHOLE, (8, 1), ("GPU-1", "GPU-2"), "--mode memory", id="one left"),
        pytest.param(SERVES_WHOLE, (0, 0), ("GPU-1", "GPU-2"), "--mode memory", id="the kubelet has restarted"),
        pytest.param(SERVES_WHOLE, None, ("GPU-1", "GPU-2"), "--mode memory", id="Node not seen"),
        pytest.param(SERVES_MEMORY, (8, 8), ("mock-0", "mock-1"), REMOVE, id="of memory, usable"),
        pytest.param(SERVES_MEMORY, None, ("mock-0", "mock-1"), REMOVE, id="of memory, Node not seen"),
    ],
)
async def test_ids_of_another_layout_are_another_plugin(
    world: World, part: str, counted: tuple[int, int] | None, ids: tuple[str, ...], advice: str
) -> None:
    world.counted = counted
    world.register(*ids)
    watch = world.watch(part)
    found = await watch.find()
    words = f"another plugin serves nvidia.com/gpu on this node: the kubelet was sent 2 device ids such as '{ids[0]}'"
    assert words in found
    assert advice in found
    assert await watch.find() == found
    assert world.reported == [found]


async def test_a_plugin_that_is_gone_is_no_conflict_though_the_kubelet_remembers_its_ids(world: World) -> None:
    world.register("GPU-1")
    world.counted = (1, 0)
    assert await world.watch().find() == ""


async def test_a_plugin_whose_devices_are_all_sick_is_one_all_the_same(world: World) -> None:
    world.register()
    world.counted = (8, 0)
    found = await world.watch().find()
    assert "the kubelet was sent 8 devices, all unhealthy or lost, and not by us" in found
    assert world.reported == [found]


async def test_one_that_was_known_stays_one_while_its_devices_are_sick_and_the_kubelet_restarts(world: World) -> None:
    watch, world.modes = world.watch(), BOTH_MODES
    world.register("GPU-1")
    assert await watch.find()
    world.register()
    for world.counted in ((1, 0), (0, 0), None):
        assert await watch.find()
    world.register(resource="example.com/forgotten")
    assert await watch.find() == ""
    assert len(world.reported) == 1


async def test_our_own_devices_are_no_conflict_when_none_of_them_is_usable(world: World) -> None:
    world.register()
    world.counted = (8, 0)
    world.modes = BOTH_MODES
    assert await world.watch().find() == "", "a plugin of ours before this one served them"
    world.modes = (SERVES_MEMORY,)
    watch = world.watch()
    world.counted = (0, 0)
    assert await watch.find() == ""
    world.counted = (8, 0)
    assert await watch.find() == "", "this one has served them since"


async def test_a_node_without_a_checkpoint_has_no_other_plugin(world: World) -> None:
    assert await world.watch().find() == ""


async def test_one_that_comes_back_is_reported_again(world: World) -> None:
    world.register("GPU-1")
    watch, found = world.watch(), []
    for world.counted in ((8, 8), (8, 0), (8, 8)):
        found.append(bool(await watch.find()))
    assert found == [True, False, True]
    assert len(world.reported) == 2


@pytest.mark.parametrize("counted", [(8, 0), (0, 0)], ids=["its units are lost", "the kubelet has restarted"])
async def test_a_plugin_of_memory_that_has_gone_is_no_conflict(world: World, counted: tuple[int, int]) -> None:
    """As after Aliyun's gpushare or the Go gcushare was removed: their ids stay in the checkpoint."""
    world.counted = counted
    world.register("GPU-1-_-0")
    assert await world.watch(SERVES_MEMORY).find() == ""


async def test_units_of_ours_without_an_inventory_are_no_conflict_though_none_is_usable(world: World) -> None:
    """As after an uninstall and an install within five minutes."""
    world.register()
    world.counted = (8, 0)
    assert await world.watch(SERVES_MEMORY).find() == ""
    world.register("000", "001")
    world.counted = (8, 8)
    assert await world.watch(SERVES_MEMORY).find() == ""


async def test_whole_cards_next_to_a_plugin_of_memory_count_only_while_they_can_be_handed_out(world: World) -> None:
    watch = world.watch(is_served=False)
    world.register("GPU-1")
    found = await watch.find()
    assert "another plugin serves nvidia.com/gpu" in found
    assert "set --other-systems allow if the cards are divided between both" in found
    world.counted = (8, 0)
    assert await watch.find() == ""
    world.register("card-0")
    world.counted = (8, 8)
    assert await watch.find() == "", "a plugin of ours has served them until now"
