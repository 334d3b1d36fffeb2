"""The extender and the commands read the same ledger from any stream of nodes, pods and claims."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings

from gcushare.cluster import follow
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.ledger import Ledger
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.watches import ClaimHandler, NodeHandler, PodHandler
from tests.cluster_streams import STREAMS, Event, Server, Step
from tests.extender_objects import state_of


def feed(handlers: dict[str, Any], events: list[Event]) -> None:
    for event in events:
        handler = handlers[event.kind]
        if event.obj is None:
            handler.retained(event.uids, "")
        elif event.is_gone:
            handler.deleted(event.obj)
        else:
            handler.applied(event.obj)


def extender_of(events: list[Event]) -> VendorState:
    state = state_of()
    feed({"nodes": NodeHandler([state]), "pods": PodHandler([state]), "claims": ClaimHandler([state])}, events)
    return state


def commands_of(events: list[Event]) -> ClusterSnapshot:
    snapshot = ClusterSnapshot(Server().vendor)
    changed = asyncio.Event()
    handlers = {
        "nodes": follow._Handler(changed, snapshot.update_node, lambda _uid, name: snapshot.remove_node(name)),
        "pods": follow._Handler(changed, snapshot.update_pod, lambda uid, _name: snapshot.remove_pod(uid)),
        "claims": follow._Handler(changed, snapshot.update_claim, lambda uid, _name: snapshot.remove_claim(uid)),
    }
    feed(handlers, events)
    return snapshot


def held(ledger: Ledger) -> dict[str, object]:
    return {each.pod.uid: (each.node, each.grants, each.unplaced, each.assigned) for each in ledger.assignments()}


def cards(ledger: Ledger) -> dict[tuple[str, int], object]:
    return {
        (name, index): (card.used, card.whole, card.total, card.grantable, card.takes_memory)
        for name, node in ledger.nodes.items()
        for index, card in node.cards.items()
    }


@settings(max_examples=400, deadline=None)
@given(STREAMS)
def test_the_extender_and_the_commands_count_alike(stream: list[Step]) -> None:
    server = Server()
    events = server.run(stream)
    extender, commands = extender_of(events), commands_of(events)
    assert held(extender.ledger) == held(commands.ledger)
    assert cards(extender.ledger) == cards(commands.ledger)
