"""The extender and the commands read the same ledger from any stream of nodes, pods and claims."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.cluster.watch_handlers import ClaimHandler, NodeHandler, PodHandler
from gcushare.core.ledger import Ledger
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ENFLAME
from tests.cluster_streams import STREAMS, Event, Server, Step, feed
from tests.extender_objects import state_of


def extender_of(events: list[Event]) -> VendorState:
    state = state_of()
    feed({"nodes": NodeHandler([state]), "pods": PodHandler([state]), "claims": ClaimHandler([state])}, events)
    return state


def commands_of(events: list[Event]) -> ClusterSnapshot:
    snapshot = ClusterSnapshot(ENFLAME)
    feed({"nodes": NodeHandler([snapshot]), "pods": PodHandler([snapshot]), "claims": ClaimHandler([snapshot])}, events)
    return snapshot


def held(ledger: Ledger) -> dict[str, object]:
    return {each.pod.uid: (each.node, each.grants, each.unplaced, each.assigned) for each in ledger.assignments()}


def cards(ledger: Ledger) -> dict[tuple[str, int], object]:
    return {
        (name, index): (card.used, card.whole, card.total, card.grantable, card.as_memory.is_open)
        for name, node in ledger.nodes.items()
        for index, card in node.cards.items()
    }


@settings(max_examples=100, deadline=None)
@given(STREAMS, st.permutations(("nodes", "pods", "claims")))
def test_any_stream_leaves_what_a_first_list_has_in_any_order(stream: list[Step], order: list[str]) -> None:
    """The extender and the commands count alike, however they came to know the objects."""
    server = Server()
    events = server.run(stream)
    listed = [Event(kind, each) for kind in order for each in server.objects(kind)]
    extender, commands, fresh = extender_of(events), commands_of(events), commands_of(listed)
    for view in (extender, commands):
        assert held(view.ledger) == held(fresh.ledger)
        assert cards(view.ledger) == cards(fresh.ledger)
        assert view.nodes.problems == fresh.nodes.problems
        assert view.pod_problems == fresh.pod_problems
    assert commands.pods == fresh.pods
    assert commands.node_facts == fresh.node_facts
    waiting = (*extender.waiting.values(), *extender.claiming.values(), *extender.unserved.values())
    unheld = {uid for uid, facts in fresh.pods.items() if facts.is_waiting and fresh.ledger.assignment(uid) is None}
    assert {each.pod.uid for each in waiting} == unheld
