"""A change of the memory unit, cut off at each write: no pod is given units in another unit than the Node says."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from gcushare.vendors import ENFLAME
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.nodes import decode_inventory
from gcushare.wire.objects import Node, NodeStatus, ObjectMeta
from tests.played_api import Asked
from tests.running import running
from tests.unit.cut_off import CutOff, Ended, every_cut_off
from tests.unit.node_agent_rig import Away, Rig, make_rig

TURNS = 20
"""Of the loop, in which everything that waits for nothing outside is done."""


@dataclass
class World(Away):
    """A node: its Node object and its kubelet, which outlive the plugin, and a pod that waits for 4 units."""

    root: Path
    cut_off: CutOff
    annotations: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, str] = field(default_factory=dict)
    holders: dict[str, str] = field(default_factory=dict)
    """The unit that each pod on the node was given its units in."""
    waiting: str = ""
    rig: Rig | None = None

    @property
    def unit(self) -> str | None:
        """What the Node says, and the extender counts in."""
        text = self.annotations.get(ENFLAME.inventory_annotation)
        return decode_inventory(text).unit.name if text is not None else None

    async def answer(self, asked: Asked) -> object:
        self.admit()
        with self.cut_off.write():
            if "status" in asked.body:
                self.capacity |= asked.body["status"]["capacity"]
            else:
                self.annotations |= {key: value for key, value in asked.annotations.items() if value is not None}
        return Node()

    def admit(self) -> None:
        """Have the kubelet give the waiting pod what it asks for, as soon as the plugin's list has it."""
        if not self.waiting or self.rig is None or self.rig.agent.inventory is None or self.holders:
            return
        if self.rig.listed()[1] >= 4:
            given = self.rig.agent.inventory.unit.name
            assert self.unit in (None, given), "given in another unit than the Node says"
            self.holders[self.waiting], self.waiting = given, ""
            self.rig.agent.on_allocate()

    def show_node(self) -> None:
        assert self.rig is not None
        meta = ObjectMeta(annotations=dict(self.annotations))
        self.rig.agent.node_applied(Node(metadata=meta, status=NodeStatus(capacity=dict(self.capacity))))

    async def run_plugin(self, unit: str) -> None:
        """Start a plugin, show it the node, and have it write what it wants until nothing changes any more.

        Raises:
            Ended: it was cut off.
        """
        self.rig = make_rig(self.root, unit=unit, api=self)
        self.show_node()
        self.rig.see(16)
        async with running(self.rig.parts.publisher.run(), "publisher") as writing:
            for _ in range(TURNS):
                self.rig.hold(**{name: device_ids_of_card(0, 4) for name in self.holders})
                self.admit()
                await asyncio.sleep(0)
                if writing.done():
                    writing.result()
                self.show_node()
                self.admit()

    def outcome(self) -> object:
        assert self.rig is not None
        return self.annotations, self.capacity, self.holders, self.rig.listed(), self.rig.agent.problem


async def change_unit(world: World) -> None:
    """Pod a is given units of 1 GB; the admin sets 0.1, which is refused until the pod is gone; pod b comes."""
    for unit, gone, comes in (("1", "", "a"), ("0.1", "", ""), ("0.1", "a", "b")):
        world.holders.pop(gone, None)
        world.waiting = comes
        try:
            await world.run_plugin(unit)
        except Ended:
            await world.run_plugin(unit)


@pytest.mark.slow
async def test_a_change_of_unit_that_is_cut_off_at_any_write_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    undisturbed = World(tmp_path, CutOff())
    await change_unit(undisturbed)
    assert (undisturbed.unit, undisturbed.holders, undisturbed.waiting) == ("0.1", {"b": "0.1"}, "")
    assert undisturbed.cut_off.writes >= 3, "two for a new Node, one for another unit"
    for cut_off in every_cut_off():
        world = World(tmp_path, cut_off)
        await change_unit(world)
        assert world.outcome() == undisturbed.outcome(), cut_off
