"""What the watches say becomes the ledger: every way in which nodes and pods come, change and go."""

from __future__ import annotations

import pytest

from gcushare.core.cards import Inventory, UnrecordedHolder
from gcushare.core.requests import MAX_REQUESTING_CONTAINERS
from gcushare.core.units import parse_memory_unit
from gcushare.scheduler_extender.state.vendor_state import MAX_REMEMBERED, VendorState
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import CARDS, NODE_POLICY, USE_CARDS
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.objects import Node, NodeSpec, ObjectMeta, Pod
from tests.builders import asks, card
from tests.extender_objects import (
    a_node,
    a_pod,
    as_pod,
    on_card,
    pod_document,
    recount,
    rejected,
    request_of,
    state_of,
)

INVENTORY, CORDON = ENFLAME.inventory_annotation, ENFLAME.cordon_annotation


def used(state: VendorState, node: str = "node-1") -> dict[int, int]:
    found = state.ledger.nodes.get(node)
    return {index: card_state.used for index, card_state in found.cards.items()} if found else {}


def largest(state: VendorState, node: str = "node-1") -> int:
    found = state.ledger.nodes.get(node)
    return found.largest_free if found else 0


def bound(name: str, units: int = 4, *, card_index: int = 0, node: str = "node-1", **options: object) -> Pod:
    return a_pod(name, units, node=node, record=on_card(card_index, units), **options)


class TestMemoryWithoutARecord:
    def test_a_refused_request_counts_with_what_the_kubelet_gives_it(self) -> None:
        document = pod_document("a", 12, node="node-1", record=on_card(1, 12))
        document["spec"]["containers"][0]["resources"]["limits"][ENFLAME.count_resource] = "2"
        state = state_of(a_node("node-1", 16, 16))
        state.pod_applied(as_pod(document))

        assert used(state) == {0: 0, 1: 12}
        assert state.pod_problems == {}

    def test_until_its_card_is_known_nothing_that_could_be_its_is_granted(self) -> None:
        state = state_of(a_node("node-1", 16, 16))
        state.pod_applied(a_pod("a", 12, node="node-1"))
        assert largest(state) == 4

        state.pod_applied(bound("a", 12, card_index=1))
        assert largest(state) == 16

    def test_holders_of_the_inventory_count_and_stay_counted(self) -> None:
        holder = UnrecordedHolder(pod="kube-system/x", units={0: 12})
        inventory = Inventory(unit=parse_memory_unit("1"), cards=(card(0), card(1)), unrecorded=(holder,))
        state = state_of(a_node("node-1", 16, 16, annotations={INVENTORY: encode_inventory(inventory)}))
        state.pods_retained(frozenset(), "1")

        assert recount(state) == []
        assert used(state) == {0: 12, 1: 0}
        state.node_applied(a_node("node-1", 16, 16))
        assert used(state) == {0: 0, 1: 0}

    def test_more_containers_than_a_pod_may_ask_with_are_refused(self) -> None:
        document = pod_document("a", 1)
        document["spec"]["containers"] = [
            document["spec"]["containers"][0] | {"name": f"c{n}"} for n in range(MAX_REQUESTING_CONTAINERS + 1)
        ]
        state = state_of(a_node("node-1", 100))
        state.pod_applied(as_pod(document))

        assert f"at most {MAX_REQUESTING_CONTAINERS} of a pod may" in rejected(state, "uid-a").problem


class TestPods:
    @pytest.mark.parametrize(
        ("pods", "held", "waiting"),
        [
            pytest.param([a_pod("a", node="node-1", record=on_card(0, 1))], 4, [], id="its spec's units"),
            pytest.param([bound("a", deletionTimestamp="2026-01-01T00:00:10Z")], 4, [], id="until it is gone"),
            pytest.param([a_pod("a", record=on_card(0, 16))], 0, ["uid-a"], id="nothing while it is unbound"),
            pytest.param([bound("a"), a_pod("a")], 4, [], id="as before, when an older state arrives late"),
            pytest.param(
                [
                    a_pod("a", vendor=ALIYUN),
                    a_pod("b", vendor=ALIYUN, node="node-1", record=on_card(0, 4)),
                    a_pod("c", None, node="node-1"),
                ],
                0,
                [],
                id="nothing of another vendor",
            ),
            *(
                pytest.param([bound("a", annotations=wish)], 4, [], id=f"not less by {wish}")
                for wish in ({CARDS: "3"}, {CARDS: "none"}, {USE_CARDS: ",,"}, {NODE_POLICY: "best"})
            ),
        ],
    )
    def test_a_pod_holds(self, pods: list[Pod], held: int, waiting: list[str]) -> None:
        state = state_of(a_node("node-1", 16))
        for each in pods:
            state.pod_applied(each)
        assert (used(state), list(state.waiting), len(state.bound)) == ({0: held}, waiting, held // 4)
        state.pod_deleted("uid-a")
        assert (used(state), state.waiting) == ({0: 0}, {})

    def test_a_damaged_record_is_a_problem_that_is_reported_and_goes_away_with_its_correction(self) -> None:
        state = state_of(a_node("node-1", 16))
        state.pod_applied(a_pod("a", 4, node="node-1", annotations={ENFLAME.record.card_index: "first"}))
        assert "'first'" in state.pod_problems["uid-a"]
        assert used(state) == {0: 0}

        state.pod_applied(bound("a"))
        assert state.pod_problems == {}
        assert used(state) == {0: 4}

    @pytest.mark.slow
    def test_only_so_many_filtered_pods_are_remembered(self) -> None:
        state = state_of()
        for number in range(MAX_REMEMBERED + 5):
            state.remember(request_of(a_pod(f"p{number}")))

        assert state.find_request("uid-p4") is None
        assert state.find_request("uid-p5") is not None


class TestNodes:
    def test_a_cordoned_node_is_the_schedulers_business(self) -> None:
        """kube-scheduler drops unschedulable nodes before it asks; who tolerates that may still be placed."""
        node = a_node("node-1", 16)
        state = state_of(Node(metadata=node.metadata, spec=NodeSpec(unschedulable=True), status=node.status))

        assert largest(state) == 16

    @pytest.mark.parametrize(
        "text", ["no JSON", '{"version":2,"unit":"1","cards":[]}', '{"version":1,"unit":"7","cards":[]}']
    )
    def test_an_inventory_that_cannot_be_read_takes_no_pods_and_says_why(self, text: str) -> None:
        state = state_of(a_node("node-1", 16, annotations={INVENTORY: text}))
        state.pod_applied(bound("a"))

        assert not state.ledger.nodes["node-1"].fits(asks(1))
        assert "inventory annotation" in state.nodes.problems["node-1"]

        state.node_applied(a_node("node-1", 16))
        assert state.nodes.problems == {}
        assert largest(state) == 12

    def test_a_problem_is_logged_when_it_changes_and_not_at_every_heartbeat(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        state = state_of()
        for text in ("bad", "bad", "[]"):
            state.node_applied(a_node("node-1", 16, annotations={INVENTORY: text}))
            state.node_applied(a_node("node-1", 16, annotations={INVENTORY: text, "heartbeat": "now"}))

        assert len([record for record in caplog.records if "takes no pods" in record.message]) == 2

    def test_a_node_that_stops_offering_cards_is_unknown(self) -> None:
        state = state_of(a_node("node-1", 16))
        state.node_applied(Node(metadata=ObjectMeta(name="node-1")))

        assert "node-1" not in state.ledger.nodes
