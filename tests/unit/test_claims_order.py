"""The order in which nodes are filled, and what it is computed from."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from gcushare.claims_controller.node_order import MAX_LEVEL, NEXT_NODES, Card, ClusterFill, Node, plan_levels
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from gcushare.wire.dra.claims import (
    Allocation,
    AllocationResult,
    ClaimStatus,
    DeviceAllocation,
    ResourceClaim,
)
from gcushare.wire.dra.slices import MEMORY, Capacity, Device, ResourcePool, ResourceSlice, SliceSpec
from gcushare.wire.objects import Node as NodeObject
from gcushare.wire.objects import ObjectMeta

GIB = 2**30
DRIVER = ENFLAME.claims.driver


def node(*used: int, level: int = 0, size: int = 16) -> Node:
    return Node({f"card-{number}": Card(size, amount) for number, amount in enumerate(used)}, level)


def applied(nodes: dict[str, Node]) -> dict[str, int]:
    """Write what is planned, and the levels that nodes have then."""
    for name, level in plan_levels(nodes).items():
        nodes[name].level = level
    return {name: each.level for name, each in nodes.items()}


def test_the_fuller_node_has_the_higher_level_and_nodes_in_use_come_before_unused_ones() -> None:
    levels = applied({"idle": node(0, 0), "little": node(4, 0), "half": node(16, 0), "most": node(16, 12)})
    assert levels["most"] > levels["half"] > levels["little"] > levels["idle"] > 0
    assert levels["most"] == MAX_LEVEL


def test_a_few_unused_nodes_are_opened_one_after_the_other_and_the_others_later() -> None:
    levels = applied({f"n{number}": node(0, 0) for number in range(7)})
    assert sorted(levels.values(), reverse=True) == [*range(NEXT_NODES, 0, -1), 0, 0, 0]


def test_when_a_node_is_opened_only_its_level_and_its_successors_change() -> None:
    nodes = {f"n{number}": node(0, 0) for number in range(7)}
    before = applied(nodes)
    opened = max(before, key=lambda name: before[name])
    nodes[opened].cards["card-0"].used = 4
    changes = plan_levels(nodes)
    assert changes[opened] == NEXT_NODES + 1
    assert list(changes.values()) == [NEXT_NODES + 1, NEXT_NODES]
    assert len(changes) == 2


def test_a_full_node_is_not_written() -> None:
    assert plan_levels({"full": node(16, 16, level=5)}) == {}


def test_a_node_that_is_empty_again_goes_to_the_end() -> None:
    nodes = {"a": node(0, level=9), **{f"n{level}": node(0, level=level) for level in range(1, NEXT_NODES + 1)}}
    assert applied(nodes)["a"] == 0


def test_a_node_without_cards_has_no_level() -> None:
    assert plan_levels({"bare": Node({}, 4)}) == {"bare": 0}


@given(st.lists(st.tuples(st.lists(st.integers(0, 16), max_size=4), st.integers(0, MAX_LEVEL)), max_size=12))
def test_writing_what_is_planned_leaves_nothing_to_write(drawn: list[tuple[list[int], int]]) -> None:
    nodes = {f"n{number}": node(*used, level=level) for number, (used, level) in enumerate(drawn)}
    levels = applied(nodes)
    assert plan_levels(nodes) == {}
    assert all(0 <= level <= MAX_LEVEL for level in levels.values())
    below = [levels[name] for name, each in nodes.items() if not each.is_used and levels[name]]
    assert len(below) == len(set(below))


def slice_of(name: str, cards: int = 2, generation: int = 1, uid: str = "") -> ResourceSlice:
    devices = tuple(
        Device(name=f"card-{number}", capacity={MEMORY: Capacity(value="16Gi")}, allow_multiple_allocations=True)
        for number in range(cards)
    )
    pool = ResourcePool(name=name, generation=generation, resource_slice_count=1)
    meta = ObjectMeta(name=f"{name}-cards-{generation}", uid=uid or f"slice-{name}-{generation}")
    return ResourceSlice(metadata=meta, spec=SliceSpec(driver=DRIVER, pool=pool, node_name=name, devices=devices))


def claim_on(uid: str, pool: str, device: str, amount: str | None, driver: str = DRIVER) -> ResourceClaim:
    consumed = {MEMORY: amount} if amount else {}
    result = AllocationResult(request="card", driver=driver, pool=pool, device=device, consumed_capacity=consumed)
    allocation = Allocation(devices=DeviceAllocation(results=(result,)))
    return ResourceClaim(metadata=ObjectMeta(name=uid, uid=uid), status=ClaimStatus(allocation=allocation))


def node_object(name: str, level: str = "") -> NodeObject:
    labels = {CLAIMS_ORDER_LABEL: level} if level else {}
    return NodeObject(metadata=ObjectMeta(name=name, uid=f"uid-{name}", labels=labels))


def make_fill() -> tuple[ClusterFill, list[None]]:
    calls: list[None] = []
    fill = ClusterFill([DRIVER], lambda: calls.append(None))
    fill.nodes.applied(node_object("a", "7"))
    fill.slices.applied(slice_of("a"))
    return fill, calls


def used(fill: ClusterFill, name: str = "a") -> dict[str, int]:
    return {key: card.used // GIB for key, card in fill.read()[name].cards.items()}


def test_claims_are_added_up_per_card_and_taken_off_again() -> None:
    fill, _ = make_fill()
    fill.claims.applied(claim_on("c1", "a", "card-0", "4Gi"))
    fill.claims.applied(claim_on("c2", "a", "card-0", "2Gi"))
    fill.claims.applied(claim_on("c1", "a", "card-0", "4Gi"))
    assert used(fill) == {"card-0": 6, "card-1": 0}
    assert fill.read()["a"].level == 7
    fill.claims.deleted(claim_on("c1", "a", "card-0", "4Gi"))
    fill.claims.retained(frozenset(), "9")
    assert used(fill) == {"card-0": 0, "card-1": 0}


def test_claims_of_other_drivers_and_waiting_ones_count_for_nothing() -> None:
    fill, calls = make_fill()
    fill.read()
    calls.clear()
    fill.claims.applied(claim_on("c1", "a", "card-0", "4Gi", driver="gpu.nvidia.com"))
    fill.claims.applied(ResourceClaim(metadata=ObjectMeta(name="c2", uid="c2")))
    assert calls == []
    assert used(fill) == {"card-0": 0, "card-1": 0}


def test_slices_of_an_older_generation_count_for_nothing() -> None:
    fill, _ = make_fill()
    fill.slices.applied(slice_of("a", cards=3, generation=2))
    assert list(used(fill)) == ["card-0", "card-1", "card-2"]
    fill.slices.deleted(slice_of("a", cards=3, generation=2))
    assert list(used(fill)) == ["card-0", "card-1"]


def test_claims_may_be_read_before_slices_and_nodes() -> None:
    fill = ClusterFill([DRIVER], lambda: None)
    fill.claims.applied(claim_on("c1", "a", "card-0", "4Gi"))
    assert fill.read() == {}
    fill.slices.applied(slice_of("a"))
    fill.nodes.applied(node_object("a"))
    assert used(fill)["card-0"] == 4


def test_a_node_that_no_longer_serves_claims_is_forgotten() -> None:
    fill, _ = make_fill()
    fill.read()
    fill.nodes.deleted(node_object("a"))
    assert fill.read() == {}


def test_a_label_that_somebody_spoiled_counts_as_none() -> None:
    fill, _ = make_fill()
    for text in ("x", "77", "-1", "²"):
        fill.nodes.applied(node_object("a", text))
        assert fill.read()["a"].level == 0


def test_a_claim_that_moves_leaves_its_node() -> None:
    fill, _ = make_fill()
    fill.nodes.applied(node_object("b"))
    fill.slices.applied(slice_of("b"))
    moved = claim_on("c1", "a", "card-0", "4Gi")
    fill.claims.applied(moved)
    fill.claims.applied(msgspec.structs.replace(claim_on("c1", "b", "card-1", "4Gi"), metadata=moved.metadata))
    assert (used(fill, "a")["card-0"], used(fill, "b")["card-1"]) == (0, 4)
