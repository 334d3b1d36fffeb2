"""What a vendor's state keeps of watched objects in rare orders: reads ahead, reused names, ended claims."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest

from gcushare.cluster.view import NodeReader
from gcushare.cluster.watch_handlers import ClaimHandler
from gcushare.core.assignments import PodRef
from gcushare.core.cards import BOTH_MODES, SERVES_CLAIMS, SERVES_MEMORY
from gcushare.scheduler_extender.state.pod_change_log import PodChangeLog
from gcushare.scheduler_extender.state.pod_stores import PodNames
from gcushare.scheduler_extender.state.scheduling_request import read_claiming_request
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import NODE_POLICY, OVER_USE
from gcushare.wire.dra.claims import claimed_request
from tests.builders import asks, pod
from tests.extender_objects import DEFAULT_POLICIES, a_node, a_pod, as_pod, on_card, pod_document, request_of, state_of
from tests.unit.test_extender_claims import allocated, claiming_document

OVER = '{"cards":{"0":{"used":9,"granted":4}},"since":"2026-01-01T00:00:00Z"}'


class TestWhereAPodWaits:
    @staticmethod
    def moved(state: VendorState) -> list[set[str]]:
        """The uids of each move that is reported."""
        found: list[set[str]] = []

        def on_move(uids: Iterable[str]) -> None:
            found.append(set(uids))

        state.listen_moved(on_move)
        return found

    def test_a_pod_for_whole_cards_waits_for_the_nodes_that_serve_them(self) -> None:
        state = state_of()
        moves = self.moved(state)
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
        found = state.find_request("uid-a")
        assert found is not None
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
        claimed = claimed_request(pod, ENFLAME)
        assert claimed is not None
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
