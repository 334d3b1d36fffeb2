"""Findings about pods and their records: each is made to happen, and nothing else is found."""

from __future__ import annotations

from typing import Any

import pytest

from gcushare.vendors import ALIYUN, ENFLAME
from gcushare.wire.annotations import OVER_USE
from tests.api_objects import an_object, owned_by
from tests.extender_objects import pod_document
from tests.protocol.doctor_rig import NODE, READY, DoctorRig, record

OVER = '{"since":"2026-01-02T03:04:05Z","cards":{"1":{"used":3221225472,"granted":0}}}'


WAITS = {"node": "", "age_s": 5}


@pytest.mark.parametrize(
    ("asked", "kind", "words"),
    [
        (WAITS | {"annotations": {"gcushare.io/cards": "many"}}, "warning request-refused", "'many'"),
        ({"held": (0, 4), "assigned": False}, "warning stale-reservation", "card 0 of n1 was reserved for it 10 min"),
        ({}, "warning unrecorded-pod", "bound to n1 10 min ago, asks for 4"),
        (WAITS | {"held": (0, 4)}, "warning forged-record", "not bound"),
        ({"held": (5, 4)}, "error forged-record", "names card 5, and node n1 has 0, 1"),
        ({"held": (0, 4), "recorded_s": 7200}, "warning forged-record", "110 min before the pod"),
        ({"held": (0, 1)}, "warning forged-record", "says 1 unit ("),
        (WAITS | {"annotations": {"gcushare.io/node-polcy": "spread"}}, "warning unread-key", "node-policy? 1 pod has"),
        ({"units": None, "held": (0, 4)}, "warning forged-record", "asks for no"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_what_is_wrong_with_a_pod_is_found_and_nothing_else(
    rig: DoctorRig, asked: dict[str, Any], kind: str, words: str
) -> None:
    made = {"units": 4, "node": NODE, **asked}
    if held := made.pop("held", None):  # made now: records carry the time
        age_s = made.pop("recorded_s", 600.0)
        made["record"] = record(*held, assigned=made.pop("assigned", True), age_s=age_s)
    rig.put_asking("wrong", **made)
    (await rig.examine()).assert_only(kind, words)


async def test_a_pod_that_chooses_its_visible_cards_itself_is_found(rig: DoctorRig) -> None:
    document = pod_document("own", 4, node=NODE, record=record(0, 4))
    container = {"name": "setter", "image": "i", "env": [{"name": "ENFLAME_VISIBLE_DEVICES", "value": "all"}]}
    document["spec"]["initContainers"] = [container]
    rig.put_pod(document, age_s=600.0, phase="Running", conditions=[])
    (await rig.examine()).assert_only("warning own-visible-devices", "container 'setter' sets ENFLAME_VISIBLE_DEVICES")


@pytest.mark.parametrize(
    ("variables", "annotations", "words"),
    [
        ([{"name": "ENFLAME_VISIBLE_DEVICES", "value": "all"}], {}, "asks for no card: it sees those of other pods"),
        ([], {OVER_USE: OVER}, "3.00 GiB of card 1 in use, nothing granted"),
    ],
    ids=["by a variable", "by its processes"],
)
async def test_a_pod_that_uses_cards_without_asking_for_any_is_found(
    rig: DoctorRig, variables: list[dict[str, str]], annotations: dict[str, str], words: str
) -> None:
    document = pod_document("free", None, node=NODE)
    document["spec"]["containers"] = [{"name": "main", "image": "busybox", "env": variables}]
    document["metadata"]["annotations"] = annotations
    rig.put_pod(document, age_s=600.0, phase="Running", conditions=[])
    (await rig.examine()).assert_only("warning free-rider", words)


async def test_pods_that_ended_hold_and_forge_nothing(rig: DoctorRig) -> None:
    for name in ("a", "b"):
        made = pod_document(name, 10, node=NODE, record=record(7, 1))
        rig.put_pod(made, age_s=600, phase="Succeeded", conditions=[])
    assert (await rig.examine()).kinds == set()


def waiting(name: str, limits: dict[str, str], **spec: Any) -> dict[str, Any]:
    """A pod that waits, and that its scheduler has tried."""
    document = pod_document(name, None)
    document["spec"]["containers"][0]["resources"] = {"limits": limits, "requests": limits}
    document["spec"].update(spec)
    return document


TRIED = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]
MEMORY = ENFLAME.memory_resource


@pytest.mark.parametrize(
    ("limits", "spec", "kind", "said", "remedy"),
    [
        pytest.param(
            {MEMORY: "20"}, {}, "pod-never-fits",
            f"2 pods wait for {MEMORY} in vain (default/a, default/b): needs 20 GB in one card; it can never fit: the "
            "largest usable card has 16 GB",
            "ask for at most 16", id="more than any card has",
        ),
        pytest.param(
            {MEMORY: "4"}, {"nodeSelector": {"pool": "x"}}, "pod-never-fits",
            "it may run on none of 1 node (kept off 1 by nodeSelector pool=x); 1 of them (n1) has room",
            "let it run on n1, off which it is kept by nodeSelector pool=x", id="rules that leave no node",
        ),
        pytest.param(
            {ALIYUN.memory_resource: "4"}, {}, "pod-never-fits",
            f"2 pods wait for {ALIYUN.memory_resource} in vain (default/a, default/b): needs 4 in one card; it can "
            "never fit: no node has cards",
            "add a node with a card of 4 or more", id="a resource that no node serves any more",
        ),
        pytest.param(
            {"enflame.com/gcu-core": "50", "enflame.com/gcu": "1"}, {}, "foreign-request",
            "2 pods ask for cards in the words of HAMi (enflame.com/gcu-core), which serves no node here",
            f"ask for {MEMORY} and create them again", id="the words of a system that is gone",
        ),
        pytest.param(
            {"enflame.com/gcu_memory": "4"}, {}, "unread-key",
            f"enflame.com/gcu_memory: no node has it; did you mean {MEMORY}? 2 pods have it", "correct the template",
            id="a misspelt resource",
        ),
        pytest.param(
            {ENFLAME.count_resource: "1"}, {}, "unread-key", f"{ENFLAME.count_resource} alone gives no card; ask for",
            "correct the template", id="a count alone",
        ),
    ],
)  # fmt: skip
async def test_pods_that_wait_in_vain_are_found_once_with_what_would_help(
    rig: DoctorRig, limits: dict[str, str], spec: dict[str, Any], kind: str, said: str, remedy: str
) -> None:
    for name in ("a", "b"):
        rig.put_pod(waiting(name, limits, **spec), age_s=600.0, phase="Pending", conditions=TRIED)
    found = await rig.examine()
    found.assert_only(f"warning {kind}", said)
    assert remedy in found.finding(kind)["remedy"]


async def test_pods_that_can_fit_or_had_no_turn_yet_do_not_wait_in_vain(rig: DoctorRig) -> None:
    rig.put_asking("holds", 16, node=NODE, record=record(0, 16))
    rig.put_pod(waiting("fits-later", {MEMORY: "16"}), age_s=600.0, phase="Pending", conditions=TRIED)
    rig.put_pod(waiting("young", {MEMORY: "20"}), age_s=5.0, phase="Pending", conditions=TRIED)
    rig.put_pod(waiting("others", {ENFLAME.whole_card_resource: "9"}), age_s=600.0, phase="Pending", conditions=TRIED)
    assert (await rig.examine()).kinds == set()
    assert (await rig.examine("--node", NODE)).kinds == set()


async def test_what_another_system_that_is_here_has_to_place_is_its_own_matter(rig: DoctorRig) -> None:
    annotations = {"hami.io/node-enflame-register": "x"}
    status = {"capacity": {"cpu": "4"}, "conditions": READY}
    rig.put(an_object("Node", "theirs", metadata={"annotations": annotations}, status=status))
    rig.put_pod(waiting("a", {"enflame.com/gcu-core": "50"}), age_s=600.0, phase="Pending", conditions=TRIED)
    assert (await rig.examine()).kinds == set()


async def test_a_pod_that_its_kubelet_refused_and_no_one_starts_again_is_found(rig: DoctorRig) -> None:
    for name, reason in (("bare", "UnexpectedAdmissionError"), ("out", f"OutOf{MEMORY}"), ("of-a-job", "OutOfcpu")):
        made = pod_document(name, 4, node=NODE, **owned_by("Job j" if name == "of-a-job" else ""))
        rig.put_pod(made, age_s=600.0, phase="Failed", reason=reason, conditions=[])
    rig.put_pod(pod_document("ended", 4, node=NODE), age_s=600.0, phase="Failed", reason="Evicted", conditions=[])
    found = await rig.examine()
    found.assert_only(
        "warning pod-refused-by-kubelet", "2 pods with a request for GCU cards failed when the kubelet was"
    )
    assert found.finding("pod-refused-by-kubelet")["subject"] == "default/bare, default/out"


async def test_more_on_one_card_than_it_has_is_found(rig: DoctorRig) -> None:
    for name in ("a", "b"):
        rig.put_asking(name, 10, node=NODE, record=record(0, 10))
    (await rig.examine()).assert_only("error overcommitted-card", "20 of 16 units, to default/a, default/b")
