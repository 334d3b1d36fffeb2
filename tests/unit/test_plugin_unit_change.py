"""The memory unit of a node under pods: changed when no one holds the old one, also if that is cut off at a write."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from gcushare.core.errors import Refused
from gcushare.device_plugin.node.inventory import Holders, check_unit_change
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.kubelet.device_ids import device_ids_of_card
from gcushare.wire.nodes import decode_inventory, encode_inventory
from gcushare.wire.objects import Node, NodeStatus, ObjectMeta
from tests.played_api import Asked
from tests.running import running
from tests.unit.cut_off import CutOff, Ended, every_cut_off
from tests.unit.node_agent_rig import Away, Rig, make_rig
from tests.unit.plugin_pods import pod


def published(unit: str) -> str:
    """The inventory that a plugin with one card of 16 GiB publishes."""
    rig = make_rig(unit=unit)
    rig.see(16)
    assert rig.agent.inventory is not None
    return encode_inventory(rig.agent.inventory)


def to_write(rig: Rig) -> str | None:
    """The unit that the publisher would write on the Node now."""
    inventory = rig.parts.publisher.wanted
    return inventory.unit.name if inventory is not None else None


@pytest.mark.parametrize(
    ("holders", "words"),
    [
        pytest.param(["d/b", "d/a"], "hold units of the old one (d/a, d/b): delete these pods", id="held"),
        pytest.param(
            None, "it is not known which pods hold units of the old one: away; solve that, or set", id="not known"
        ),
    ],
)
def test_another_unit_is_refused_while_pods_hold_the_old_one_or_may(holders: list[str] | None, words: str) -> None:
    with pytest.raises(Refused) as refused:
        check_unit_change("1", "0.1", Holders(holders, "away"))
    assert words in str(refused.value)
    assert str(refused.value).endswith("set --memory-unit 1")


def test_a_unit_that_no_one_holds_or_that_stays_as_it_is_may_be_offered() -> None:
    check_unit_change("1", "0.1", Holders([]))
    check_unit_change(None, "0.1", Holders(None, "away"))
    check_unit_change("1", "GiB", Holders(["d/a"]))


def test_another_unit_is_refused_until_the_kubelets_record_shows_no_holder() -> None:
    rig = make_rig(unit="0.1")
    rig.node(inventory=published("1"))
    rig.see(16)
    assert "it is not known which pods hold units of the old one" in rig.agent.problem
    rig.hold(a=device_ids_of_card(0, 4))
    assert "changes from '1' to '0.1' while pods hold units of the old one (d/a)" in rig.agent.problem
    assert not rig.agent.offered.is_set()
    rig.hold()
    assert (rig.agent.problem, rig.listed(), to_write(rig)) == ("", (160, 0), "0.1")
    rig.node(inventory=published("0.1"))
    assert (rig.agent.problem, rig.listed()) == ("", (160, 160))


def test_a_node_that_is_seen_late_ends_what_was_offered_in_another_unit_without_harm_to_its_pods() -> None:
    rig = make_rig(unit="0.1")
    rig.hold(a=device_ids_of_card(0, 4))
    rig.see(16)
    assert rig.listed() == (160, 160)
    rig.node(inventory=published("1"))
    assert "changes from '1' to '0.1' while pods hold units of the old one (d/a)" in rig.agent.problem
    assert rig.heard.reasons() == ["MemoryUnitRefused"]
    assert rig.listed() == (160, 4), "what pods hold stays healthy"
    assert to_write(rig) is None, "the Node keeps the unit of before"
    rig.see(16)
    rig.node(inventory=published("1"))
    assert rig.listed() == (160, 4)
    rig.hold()
    assert (rig.agent.problem, rig.listed(), to_write(rig)) == ("", (160, 0), "0.1")
    rig.node(inventory=published("0.1"))
    assert rig.listed() == (160, 160), "given out once the extender counts in it"


async def test_records_are_kept_true_while_another_unit_is_refused() -> None:
    rig = make_rig(unit="0.1")
    rig.node(inventory=published("1"))
    rig.agent.pod_applied(pod("a", 4, card=0))
    rig.hold(a=device_ids_of_card(0, 4))
    rig.see(16)
    assert "changes from '1' to '0.1'" in rig.agent.problem
    assert not rig.agent.offered.is_set()
    async with asyncio.TaskGroup() as writers:
        rig.parts.reconciler.writer.start_due(writers)
    (record,) = rig.away.records
    assert (record[ENFLAME.record.assigned], record[ENFLAME.record.card_units]) == ("true", "16")


def test_cards_that_go_away_meanwhile_do_not_overwrite_the_unit_of_before() -> None:
    rig = make_rig(unit="0.1")
    rig.hold(a=device_ids_of_card(0, 4))
    rig.see(16)
    rig.node(inventory=published("1"))
    rig.see()
    assert to_write(rig) is None
    rig.see(16)
    assert (rig.listed(), to_write(rig)) == ((160, 4), None)


@pytest.mark.parametrize("has_allocated", [False, True])
def test_an_automatic_unit_gives_way_to_that_of_before_unless_both_were_given_out(has_allocated: bool) -> None:
    rig = make_rig(unit="auto")
    rig.hold(a=device_ids_of_card(0, 4))
    rig.see(16)
    assert to_write(rig) == "0.001"
    if has_allocated:
        rig.agent.on_allocate()
    rig.node(inventory=published("0.1"))
    if has_allocated:
        assert "changes from '0.1' to '0.001'" in rig.agent.problem
        assert rig.listed() == (16000, 4)
    else:
        assert (rig.agent.problem, rig.listed(), to_write(rig)) == ("", (160, 160), "0.1")


async def test_nothing_is_written_on_a_node_that_was_not_seen() -> None:
    rig = make_rig()
    rig.see(16)
    async with running(rig.parts.publisher.run(), "publisher"):
        for _ in range(5):
            await asyncio.sleep(0)
    assert "the Node was not seen yet" in rig.parts.publisher.problem


EIGHT = (16,) * 8


def unit_of(rig: Rig) -> str:
    assert rig.agent.inventory is not None
    return rig.agent.inventory.unit.name


def is_warned(rig: Rig) -> bool:
    return "ManyUnits" in rig.heard.reasons()


@pytest.mark.parametrize(
    ("wanted", "kubelet", "unit", "warned"),
    [
        pytest.param("auto", "v1.35.4", "0.001", False, id="quick"),
        pytest.param("auto", "v1.36.0-rc.1", "0.1", False, id="slow above 10,000"),
        pytest.param("auto", "v1.40.0", "0.1", False, id="later"),
        pytest.param("auto", "", "0.001", False, id="unknown"),
        pytest.param("0.001", "v1.36.2", "0.001", True, id="the admin's own"),
    ],
)
def test_auto_chooses_by_the_kubelets_version_and_a_unit_that_the_admin_chose_stays_and_is_reported(
    wanted: str, kubelet: str, unit: str, warned: bool
) -> None:
    rig = make_rig(wanted)
    rig.node(kubelet)
    rig.see(*EIGHT)
    assert (unit_of(rig), is_warned(rig)) == (unit, warned)


def test_a_node_with_many_units_of_every_size_gets_the_coarsest() -> None:
    rig = make_rig("auto", vendor=ALIYUN)
    rig.node("v1.36.2")
    rig.see(*(1024,) * 16)
    assert (unit_of(rig), is_warned(rig)) == ("GiB", True)


def test_a_unit_that_pods_hold_stays_until_the_node_is_empty() -> None:
    rig = make_rig("auto")
    rig.node("v1.35.4")
    rig.see(*EIGHT)
    rig.hold(a=device_ids_of_card(0, 4))
    rig.node("v1.36.2")
    assert (unit_of(rig), rig.agent.problem) == ("0.001", ""), "an upgrade of the kubelet refuses no one"
    assert is_warned(rig)
    rig.hold()
    assert unit_of(rig) == "0.1"


TURNS = 20
"""Of the loop, in which everything that waits for nothing outside is done."""


@dataclass
class World(Away):
    """A node: its Node object and its kubelet, which outlive the plugin, and a pod that waits for 4 units."""

    cut_off: CutOff = field(kw_only=True)
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
        self.rig = make_rig(unit=unit, api=self)
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
async def test_a_change_of_unit_that_is_cut_off_at_any_write_ends_as_an_undisturbed_one() -> None:
    undisturbed = World(cut_off=CutOff())
    await change_unit(undisturbed)
    assert (undisturbed.unit, undisturbed.holders, undisturbed.waiting) == ("0.1", {"b": "0.1"}, "")
    assert undisturbed.cut_off.writes >= 3, "two for a new Node, one for another unit"
    for cut_off in every_cut_off():
        world = World(cut_off=cut_off)
        await change_unit(world)
        assert world.outcome() == undisturbed.outcome(), cut_off
