"""How the plugin finds out that another one serves its whole-card resource."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from gcushare.core.cards import BOTH_MODES, SERVES_MEMORY, SERVES_WHOLE, Inventory
from gcushare.device_plugin.kubelet.conflicts import ConflictingPluginWatch
from gcushare.device_plugin.node.publisher import ResourceCounts
from tests.builders import inventory

RESOURCE = "nvidia.com/gpu"
REMOVE = "Memory is not offered next to it: remove that plugin from this node"


@dataclass
class World:
    """The kubelet's checkpoint, what the Node counts, and what was reported; ``former`` was published before."""

    path: Path
    counted: tuple[int, int] | None = (8, 8)
    former: Inventory | None = None
    reported: list[str] = field(default_factory=list)

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


def offered(*modes: str) -> Inventory:
    return replace(inventory(16), modes=modes)


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


@pytest.mark.parametrize(
    ("part", "ids", "counted"),
    [
        pytest.param(SERVES_WHOLE, None, (8, 8), id="no checkpoint"),
        pytest.param(SERVES_WHOLE, ("GPU-1",), (1, 0), id="gone, and its ids are remembered"),
        pytest.param(SERVES_MEMORY, ("GPU-1-_-0",), (8, 0), id="of memory, gone"),
        pytest.param(SERVES_MEMORY, ("GPU-1-_-0",), (0, 0), id="of memory, gone, and the kubelet has restarted"),
        pytest.param(SERVES_MEMORY, (), (8, 0), id="ours, uninstalled and installed within five minutes"),
        pytest.param(SERVES_MEMORY, ("000", "001"), (8, 8), id="ours"),
    ],
)
async def test_no_other_plugin_is_found_where_none_can_hand_out_cards(
    world: World, part: str, ids: tuple[str, ...] | None, counted: tuple[int, int]
) -> None:
    world.counted = counted
    if ids is not None:
        world.register(*ids)
    assert await world.watch(part).find() == ""


async def test_a_plugin_whose_devices_are_all_sick_is_one_all_the_same(world: World) -> None:
    world.register()
    world.counted = (8, 0)
    found = await world.watch().find()
    assert "the kubelet was sent 8 devices, all unhealthy or lost, and not by us" in found
    assert world.reported == [found]


async def test_one_that_was_known_stays_one_while_its_devices_are_sick_and_the_kubelet_restarts(world: World) -> None:
    watch, world.former = world.watch(), offered(*BOTH_MODES)
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
    world.former = offered(*BOTH_MODES)
    assert await world.watch().find() == "", "a plugin of ours before this one served them"
    world.former = offered(SERVES_MEMORY)
    watch = world.watch()
    world.counted = (0, 0)
    assert await watch.find() == ""
    world.counted = (8, 0)
    assert await watch.find() == "", "this one has served them since"


async def test_one_that_comes_back_is_reported_again(world: World) -> None:
    world.register("GPU-1")
    watch, found = world.watch(), []
    for world.counted in ((8, 8), (8, 0), (8, 8)):
        found.append(bool(await watch.find()))
    assert found == [True, False, True]
    assert len(world.reported) == 2


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
