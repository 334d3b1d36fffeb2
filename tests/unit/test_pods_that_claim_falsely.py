"""What a pod's author writes on it brings no room, and takes none from others: in the extender and in the commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.cluster.view import ClusterView
from gcushare.core.assignments import CardGrant
from gcushare.core.requests import CardRequest
from gcushare.vendors import ENFLAME
from gcushare.wire.annotations import RECORDED_UID
from gcushare.wire.objects import ContainerStatus, Pod
from gcushare.wire.pods import MACHINE_UID, MIRROR
from tests.extender_objects import a_node, a_pod, as_whole, on_card, state_of

NODE = "node-1"
VIEWS = pytest.mark.parametrize("view", [state_of, lambda: ClusterSnapshot(ENFLAME)], ids=["extender", "commands"])
MakeView = Callable[[], ClusterView]


def on_node(name: str, units: object = 16, **options: Any) -> Pod:
    """A pod whose author named the node."""
    return a_pod(name, units, node=NODE, **options)


def with_cards(make: MakeView, *pods: Pod) -> ClusterView:
    view = make()
    view.node_applied(a_node(NODE, 16, 16))
    for pod in pods:
        view.pod_applied(pod)
    return view


def fits(view: ClusterView, units: int = 16) -> bool:
    return view.ledger.nodes[NODE].fits(CardRequest(units))


@VIEWS
@pytest.mark.parametrize("uid", ["x", "uid-victim", "default/victim"])
@pytest.mark.parametrize(
    "claim",
    [
        pytest.param({}, id="no record"),
        pytest.param({"record": on_card(0, 16)}, id="a record"),
        pytest.param({"record": replace(on_card(0, 16), assigned=True)}, id="a record that says assigned"),
        pytest.param({"units": None, "whole": 2, "record": as_whole(0, 1)}, id="whole cards"),
        pytest.param({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b"]}, id="held by a finalizer"),
        pytest.param({"units": "many"}, id="an amount that cannot be read"),
    ],
)
def test_a_false_mirror_closes_no_card_and_holds_none(view: MakeView, claim: dict[str, Any], uid: str) -> None:
    found = with_cards(view, on_node("false", annotations={MIRROR: uid, MACHINE_UID: uid}, **claim))
    assert (list(found.ledger.assignments()), found.pod_problems) == ([], {})
    assert fits(found)
    if isinstance(found, ClusterSnapshot):
        assert (found.pods, found.without_card(), found.unplaced()) == ({}, {}, {})


DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0, "finalizers": ["a/b"]}


@VIEWS
@pytest.mark.parametrize(
    ("left", "is_free"),
    [
        pytest.param({}, True, id="never admitted"),
        pytest.param({"record": on_card(0, 16)}, True, id="bound by us, never admitted"),
        pytest.param({"record": replace(on_card(0, 16), assigned=True)}, True, id="its record says what is not so"),
        pytest.param({"deletionGracePeriodSeconds": 30}, False, id="its kubelet has not said that it ended"),
        pytest.param({"annotations": {ENFLAME.record.card_index: "x"}}, True, id="with a record that cannot be read"),
    ],
)
def test_a_pod_that_a_finalizer_keeps_after_its_end_keeps_no_room(
    view: MakeView, left: dict[str, Any], is_free: bool
) -> None:
    found = with_cards(view, on_node("left", **{**DELETED, **left}), on_node("other", 16, record=on_card(1, 16)))
    assert fits(found) is is_free


def admitted(pod: Pod) -> Pod:
    """The pod once its kubelet has said when it took it."""
    return msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, start_time="2026-01-01T00:00:00Z"))


@VIEWS
def test_a_pod_that_its_kubelet_admitted_keeps_its_room_until_the_kubelet_says_that_it_ended(view: MakeView) -> None:
    pod = admitted(on_node("left", 16, record=on_card(0, 16), **DELETED))
    assert not fits(with_cards(view, pod, on_node("other", 16, record=on_card(1, 16))))


@VIEWS
def test_a_pod_whose_containers_have_all_ended_keeps_no_room_although_its_phase_stays(view: MakeView) -> None:
    """As with kubelets before 1.27, which report no final phase of a pod that was deleted."""
    ended = {"name": "main", "state": {"terminated": {"exitCode": 0}}}
    pod = admitted(on_node("left", 16, record=replace(on_card(0, 16), assigned=True), phase="Running", **DELETED))
    status = msgspec.structs.replace(pod.status, container_statuses=(msgspec.convert(ended, ContainerStatus),))
    assert not fits(with_cards(view, pod, on_node("other", 16, record=on_card(1, 16))))
    pod = msgspec.structs.replace(pod, status=status)
    assert fits(with_cards(view, pod, on_node("other", 16, record=on_card(1, 16))))


@VIEWS
@pytest.mark.parametrize(
    ("said", "is_own"),
    [
        pytest.param("uid-then", False, id="another pod's"),
        pytest.param("uid-copy", True, id="its own"),
        pytest.param("", True, id="of another system or an earlier release"),
    ],
)
@pytest.mark.parametrize("index", [1, 99999], ids=["a card", "no card that there is"])
def test_the_record_of_another_pod_says_nothing_of_a_pods_card(
    view: MakeView, said: str, is_own: bool, index: int
) -> None:
    """As on a pod that is created with its node's name from a manifest that was exported with its annotations."""
    written = {ENFLAME.record.card_index: str(index), ENFLAME.record.assigned: "true", RECORDED_UID: said}
    found = with_cards(view, on_node("copy", 14, annotations=written))
    held = found.ledger.assignment("uid-copy")
    assert held is not None
    assert (held.grants, held.unplaced) == (((CardGrant(1, 14),), 0) if is_own and index == 1 else ((), 14))
    assert bool(found.pod_problems) is (is_own and index != 1), "nothing is wrong with a pod that has none"
