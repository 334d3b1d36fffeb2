"""What the watches say becomes the ledger: every way in which nodes and pods come, change and go, rare orders too."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

import msgspec
import pytest

from gcushare.cluster.view import NodeReader
from gcushare.cluster.watch_handlers import ClaimHandler
from gcushare.core.assignments import PodRef
from gcushare.core.cards import BOTH_MODES, SERVES_CLAIMS, SERVES_MEMORY, Inventory, UnrecordedHolder
from gcushare.core.requests import MAX_REQUESTING_CONTAINERS
from gcushare.core.units import parse_memory_unit
from gcushare.scheduler_extender.state.pod_change_log import PodChangeLog
from gcushare.scheduler_extender.state.pod_stores import PodNames
from gcushare.scheduler_extender.state.scheduling_request import read_claiming_request
from gcushare.scheduler_extender.state.vendor_state import MAX_REMEMBERED, VendorState
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import CARDS, NODE_POLICY, OVER_USE, USE_CARDS
from gcushare.wire.dra.claims import claimed_request
from gcushare.wire.nodes import encode_inventory
from gcushare.wire.objects import Node, NodeSpec, ObjectMeta, Pod
from tests.builders import asks, card, pod, present
from tests.extender_objects import (
    DEFAULT_POLICIES,
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
from tests.unit.test_extender_claims import allocated, claiming_document

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
            pytest.param([bound("a"), a_pod("a")], 0, ["uid-a"], id="nothing, restored to before its Binding"),
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


OVER = '{"cards":{"0":{"used":9,"granted":4}},"since":"2026-01-01T00:00:00Z"}'


class TestWhereAPodWaits:
    def test_a_pod_for_whole_cards_waits_for_the_nodes_that_serve_them(self) -> None:
        state = state_of()
        moves: list[set[str]] = []
        state.listen_moved(lambda uids: moves.append(set(uids)))
        state.pod_applied(a_pod("w", whole=1))
        state.pod_applied(a_pod("m"))
        assert (set(state.unserved), set(state.waiting)) == ({"uid-w"}, {"uid-m"})
        state.node_applied(a_node("n", 16, modes=(SERVES_CLAIMS,)))
        assert (set(state.unserved), set(state.claiming)) == (set(), {"uid-w"})
        state.node_applied(a_node("n", 16, modes=BOTH_MODES))
        assert (set(state.claiming), set(state.waiting)) == (set(), {"uid-w", "uid-m"})
        state.node_applied(a_node("n", 16, annotations={ENFLAME.inventory_annotation: "bad"}))
        assert (set(state.unserved), set(state.waiting)) == ({"uid-w"}, {"uid-m"}), (
            "a node that cannot be read serves none"
        )
        state.node_applied(a_node("n", 16, modes=BOTH_MODES))
        state.node_deleted("n")
        assert set(state.unserved) == {"uid-w"}
        assert moves == [{"uid-w"}] * 5

    def test_a_request_that_becomes_readable_waits_once(self) -> None:
        state = state_of()
        state.pod_applied(a_pod("a", "1.5"))
        state.pod_applied(a_pod("a", whole=1))
        assert (set(state.waiting), set(state.unserved)) == (set(), {"uid-a"})
        state.pod_applied(a_pod("a", "1.5"))
        assert (set(state.waiting), set(state.unserved)) == ({"uid-a"}, set())

    def test_a_reserved_pod_that_a_list_lacks_waits_no_more_and_stays_reserved(self) -> None:
        state = state_of(a_node("n", 16))
        state.pod_applied(a_pod("a"))
        state.ledger.reserve(PodRef("uid-a", "default", "a"), "n", asks(4), lambda _state, _request: (0,))
        state.pods_retained(frozenset(), "1")
        assert (state.waiting, state.names.find("default", "a"), state.ledger.is_reserved("uid-a")) == ({}, [], True)

    @pytest.mark.parametrize(
        ("read", "kept"),
        [("9", "9"), ("5", "7"), ("7", "7"), ("x", "7")],
        ids=["newer", "older", "the same", "not comparable"],
    )
    @pytest.mark.parametrize("whole", [0, 1])
    def test_a_pod_that_filter_read_has_its_newest_version(self, whole: int, read: str, kept: str) -> None:
        state = state_of()
        state.pod_applied(a_pod("a", whole=whole, resourceVersion="7"))
        state.remember(request_of(a_pod("a", whole=whole, resourceVersion=read)))
        found = present(state.find_request("uid-a"))
        assert (found.version, state.find_waiting("uid-a"), state.find_waiting("uid-b")) == (kept, found, None)

    def test_a_pod_that_is_not_granted_is_not_replaced_by_a_read(self) -> None:
        state = state_of()
        state.pod_applied(a_pod("a", "1.5", resourceVersion="7"))
        state.remember(request_of(a_pod("a", 4, resourceVersion="9")))
        assert (state.find_request("uid-a"), state.find_waiting("uid-a")) == (None, state.waiting["uid-a"])


class TestWhatABoundPodHolds:
    def test_over_use_is_kept_while_the_pod_has_it(self) -> None:
        state = state_of(a_node("n", 16))
        state.pod_applied(a_pod("a", node="n", record=on_card(0, 4), annotations={OVER_USE: OVER}))
        assert "2026-01-01" in state.over_use["uid-a"]
        state.pod_applied(a_pod("a", node="n", record=on_card(0, 4)))
        assert state.over_use == {}
        state.pod_applied(a_pod("a", node="n", record=on_card(0, 4), annotations={OVER_USE: OVER}))
        state.pod_deleted("uid-a")
        assert state.over_use == {}

    def test_claims_are_counted_by_their_holders_until_they_end(self) -> None:
        state = state_of(a_node("n", 16, 16, modes=(SERVES_CLAIMS,)))
        handler = ClaimHandler([state])
        for name in ("a", "b", "c"):
            state.pod_applied(as_pod(claiming_document(name, 4)))
        assert set(state.claiming) == {"uid-a", "uid-b", "uid-c"}
        claims = {name: allocated(name, "n", card, 4) for name, card in (("a", 0), ("b", 1), ("c", 1))}
        for claim in claims.values():
            handler.applied(claim)
        bound_document = claiming_document("a", 4, **{OVER_USE: OVER})
        bound_document["spec"]["nodeName"] = "n"
        state.pod_applied(as_pod(bound_document))
        assert (set(state.bound), state.claiming, set(state.over_use)) == ({"uid-a", "uid-b", "uid-c"}, {}, {"uid-a"})
        assert {index: card.used for index, card in state.ledger.nodes["n"].cards.items()} == {0: 4, 1: 8}
        assert (state.counts_by_claim("uid-a"), state.counts_by_claim("uid-x")) == (True, False)
        handler.deleted(claims["a"])
        assert (set(state.bound), state.names.find("default", "a")) == ({"uid-b", "uid-c"}, [])
        handler.retained(frozenset({claims["c"].metadata.uid}), "9")
        assert set(state.bound) == {"uid-c"}
        handler.retained(frozenset(), "10")
        assert {index: card.used for index, card in state.ledger.nodes["n"].cards.items()} == {0: 0, 1: 0}


class TestRemembered:
    def test_names_find_the_newest_pod_of_a_namespace_first(self) -> None:
        names, pods = PodNames(), [PodRef(f"u{number}", "d", "a") for number in range(3)]
        for each in (*pods, PodRef("other", "e", "a"), pods[0]):
            names.add(each)
        assert (names.find("d", "a"), names.find("e", "a"), names.find("d", "b")) == (["u0", "u2", "u1"], ["other"], [])
        for each, left in ((pods[1], ["u0", "u2"]), (pods[1], ["u0", "u2"]), (pods[0], ["u2"]), (pods[2], [])):
            names.forget(each)
            assert (names.find("d", "a"), names.find("e", "a")) == (left, ["other"])
        names.forget(PodRef("other", "e", "a"))
        names.forget(pod("unknown"))
        assert names.find("e", "a") == []


class TestRequests:
    @pytest.mark.parametrize(("asked", "policy"), [("", "spread"), ("binpack", "binpack"), ("best", "spread")])
    def test_of_a_claiming_pods_options_the_node_policy_counts(self, asked: str, policy: str) -> None:
        pod = as_pod(claiming_document("a", 4, **({NODE_POLICY: asked} if asked else {})))
        claimed = present(claimed_request(pod, ENFLAME))
        found = read_claiming_request(pod, claimed, replace(DEFAULT_POLICIES, node="spread", card="spread"))
        assert (found.shape.node_policy, found.card_policy, found.cards.units) == (policy, "spread", 4)
        assert claimed_request(a_pod("a"), ENFLAME) is None


class TestNodeReader:
    def test_only_what_is_said_of_cards_is_a_change(self) -> None:
        reader = NodeReader(ENFLAME)
        assert reader.has_changed(a_node("n", 16))
        assert not reader.has_changed(a_node("n", 16, annotations={"heartbeat": "now"}))
        assert reader.has_changed(a_node("n", 16, annotations={ENFLAME.cordon_annotation: "0"}))
        assert reader.has_changed(a_node("n", 16, modes=BOTH_MODES))
        assert reader.has_changed(a_node("m", 16))
        reader.forget("n")
        assert (set(reader.marks), reader.has_changed(a_node("n", 16, modes=BOTH_MODES))) == ({"m"}, True)

    @pytest.mark.parametrize(
        ("modes", "resource", "empty"),
        [
            ((SERVES_MEMORY,), ENFLAME.memory_resource, True),
            (BOTH_MODES, ENFLAME.whole_card_resource, True),
            ((SERVES_MEMORY,), ENFLAME.count_resource, False),
        ],
    )
    def test_a_node_whose_kubelet_counts_no_cards_is_known_until_it_does(
        self, modes: tuple[str, ...], resource: str, *, empty: bool
    ) -> None:
        node = a_node("n", 16, modes=modes)
        without = msgspec.structs.replace(node.status, capacity=dict(node.status.capacity) | {resource: "0"})
        state = state_of(msgspec.structs.replace(node, status=without))
        assert state.nodes.without_units == ({"n"} if empty else set())
        state.node_applied(node)
        assert state.nodes.without_units == set()
        state.node_applied(msgspec.structs.replace(node, status=without))
        state.node_deleted("n")
        assert (state.nodes.without_units, state.nodes.marks) == (set(), {})


class TestChangeLog:
    def test_each_change_of_a_pod_with_cards_is_one_line(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG, "gcushare")
        log = PodChangeLog([ENFLAME, ALIYUN])
        unasked, init = a_pod("other", None), pod_document("init", None)
        init["spec"]["initContainers"] = pod_document("x", whole=1)["spec"]["containers"]
        record = {ENFLAME.record.card_index: "1", "gcushare.io/corrected": "0->1", "example.com/x": "y"}
        for each in (
            unasked,
            a_pod("a"),
            a_pod("a"),
            a_pod("a", None, phase="Running", annotations=record),
            a_pod("b", vendor=ALIYUN),
            as_pod(init),
        ):
            log.pod_applied(each)
        start = 'old_status="" new_status=Pending old_annotations={} new_annotations={}'
        shown = {ENFLAME.record.card_index: "1", "gcushare.io/corrected": "0->1"}
        assert caplog.messages == [
            f"pod changed pod=default/a uid=uid-a {start}",
            "pod changed pod=default/a uid=uid-a old_status=Pending new_status=Running old_annotations={} "
            f"new_annotations={json.dumps(json.dumps(shown))}",
            f"pod changed pod=default/b uid=uid-b {start}",
            f"pod changed pod=default/init uid=uid-init {start}",
        ]
        log.pods_retained(frozenset({"uid-a"}), "1")
        log.pod_deleted("uid-a")
        log.pod_deleted("uid-a")
        for name in ("a", "b"):
            log.pod_applied(a_pod(name, phase="Failed", vendor=ENFLAME if name == "a" else ALIYUN))
        assert ['old_status="" new_status=Failed' in each for each in caplog.messages[4:]] == [True, True]
