"""The order in which nodes that serve claims are filled, and what it is computed from."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gcushare.cluster.watch_handlers import ClaimHandler, NodeHandler, PodHandler
from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY
from gcushare.core.ledger import Ledger
from gcushare.core.units import GIB
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.connection.config import KubeConfig
from gcushare.scheduler_extender.claims.node_order import (
    MAX_LEVEL,
    NEXT_NODES,
    NodeFill,
    OrderWriter,
    plan_levels,
    read_fill,
)
from gcushare.vendors import ALIYUN
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from gcushare.wire.objects import Node, NodeSpec, ObjectMeta
from tests.builders import cards
from tests.cluster_streams import STREAMS, Event, Server, Step, feed
from tests.extender_objects import a_node, state_of
from tests.unit.claims_driver_values import a_claim, a_result


def node(used: int = 0, level: int = 0, size: int = 32) -> NodeFill:
    return NodeFill(size, used, level)


def applied(nodes: dict[str, NodeFill]) -> dict[str, int]:
    """Write what is planned, and the levels that nodes have then."""
    for name, level in plan_levels(nodes).items():
        nodes[name] = replace(nodes[name], level=level)
    return {name: each.level for name, each in nodes.items()}


def test_the_fuller_node_has_the_higher_level_and_nodes_in_use_come_before_unused_ones() -> None:
    levels = applied({"idle": node(), "little": node(4), "half": node(16), "most": node(28)})
    assert levels["most"] > levels["half"] > levels["little"] > levels["idle"] > 0
    assert levels["most"] == MAX_LEVEL


def test_a_few_unused_nodes_are_opened_one_after_the_other_and_the_others_later() -> None:
    levels = applied({f"n{number}": node() for number in range(7)})
    assert sorted(levels.values(), reverse=True) == [*range(NEXT_NODES, 0, -1), 0, 0, 0]


def test_when_a_node_is_opened_only_its_level_and_its_successors_change() -> None:
    nodes = {f"n{number}": node() for number in range(7)}
    before = applied(nodes)
    opened = max(before, key=lambda name: before[name])
    nodes[opened] = replace(nodes[opened], used=4)
    changes = plan_levels(nodes)
    assert changes[opened] == NEXT_NODES + 1
    assert list(changes.values()) == [NEXT_NODES + 1, NEXT_NODES]
    assert len(changes) == 2


FIRST = {f"n{level}": node(level=level) for level in range(1, NEXT_NODES + 1)}
"""The unused nodes to open next."""


@pytest.mark.parametrize(
    ("nodes", "changes"),
    [
        pytest.param({"full": node(32, level=5)}, {}, id="no pod can go to a full one"),
        pytest.param({"a": node(level=9), **FIRST}, {"a": 0}, id="an empty one goes to the end"),
        pytest.param({"bare": node(level=4, size=0)}, {"bare": 0}, id="without cards"),
    ],
)
def test_which_nodes_are_written(nodes: dict[str, NodeFill], changes: dict[str, int]) -> None:
    assert plan_levels(nodes) == changes


@given(st.lists(st.tuples(st.integers(0, 64), st.integers(0, MAX_LEVEL)), max_size=12))
def test_writing_what_is_planned_leaves_nothing_to_write(drawn: list[tuple[int, int]]) -> None:
    nodes = {f"n{number}": node(used, level, size=64) for number, (used, level) in enumerate(drawn)}
    levels = applied(nodes)
    assert plan_levels(nodes) == {}
    assert all(0 <= level <= MAX_LEVEL for level in levels.values())
    below = [levels[name] for name, each in nodes.items() if not each.used and levels[name]]
    assert len(below) == len(set(below))


def labelled(found: Node, level: str = "", version: int = 1) -> Node:
    labels = {CLAIMS_ORDER_LABEL: level} if level else {}
    metadata = msgspec.structs.replace(found.metadata, labels=labels, resource_version=str(version))
    return msgspec.structs.replace(found, metadata=metadata)


def order_of(*ledgers: Ledger) -> OrderWriter:
    """One that never writes."""
    client = KubeClient(KubeConfig(server="http://127.0.0.1:1", source="the test"))
    return OrderWriter(client, ledgers, lambda: False, clock=SystemClock(), rng=random.Random(0))


def claims_node(name: str, *sizes: int) -> Node:
    return a_node(name, *sizes, modes=(SERVES_CLAIMS,))


@pytest.mark.parametrize("text", ["x", "77", "-1", "²"])
def test_a_label_that_somebody_spoiled_counts_as_none(text: str) -> None:
    order = order_of()
    order.node_applied(labelled(claims_node("a", 16), "7", 1))
    order.node_applied(labelled(claims_node("a", 16), text, 2))
    assert order.levels["a"] == 0


def test_nodes_of_resources_and_nodes_that_are_gone_have_no_part_in_the_order() -> None:
    state = state_of(claims_node("a", 16), a_node("b", 16), claims_node("c", 16))
    state.node_applied(a_node("c", 16, modes=(SERVES_MEMORY,)))
    assert set(read_fill([state.ledger], {})) == {"a"}
    order = order_of()
    order.node_applied(Node(metadata=ObjectMeta(name="a"), spec=NodeSpec(unschedulable=True)))
    assert applied(read_fill([state.ledger], {"a": 4}, order.cordoned)) == {"a": 0}, "no pod can open it"
    state.node_deleted("a")
    assert read_fill([state.ledger], {}) == {}


def test_a_node_counts_with_the_cards_of_every_vendor_in_bytes() -> None:
    enflame, aliyun = state_of(claims_node("a", 16)), state_of(vendor=ALIYUN)
    aliyun.node_applied(a_node("a", vendor=ALIYUN, offered=cards(24, 24), modes=(SERVES_CLAIMS,)))
    enflame.claim_applied(a_claim("one", a_result("card-0", 4, pool="a")))
    ledgers: list[Ledger] = [enflame.ledger, aliyun.ledger]
    assert read_fill(ledgers, {"a": 2}) == {"a": NodeFill(64 * GIB, 4 * GIB, 2)}


@given(STREAMS)
def test_any_stream_of_objects_leads_to_the_order_of_what_there_is(stream: list[Step]) -> None:
    server = Server()
    events = server.run(stream)
    listed = [Event(kind, each) for kind in ("nodes", "claims") for each in server.objects(kind)]
    found = []
    for seen in (events, listed):
        state = state_of()
        order = order_of(state.ledger)
        handlers = {"nodes": NodeHandler([state, order]), "pods": PodHandler([state]), "claims": ClaimHandler([state])}
        feed(handlers, [with_level(event) for event in seen])
        found.append(read_fill([state.ledger], order.levels))
    assert found[0] == found[1]


def with_level(event: Event) -> Event:
    """Give each state of a node a level of its own."""
    if not isinstance(event.obj, Node):
        return event
    version = int(event.obj.metadata.resource_version)
    return replace(event, obj=labelled(event.obj, str(version % (MAX_LEVEL + 1)), version))
