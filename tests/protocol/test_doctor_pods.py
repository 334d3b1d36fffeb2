"""Findings about pods and their records: each is made to happen, and nothing else is found."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gcushare.wire.documents.plugin_status import PodOnNode
from tests.extender_objects import pod_document
from tests.protocol.doctor_rig import NODE, PLUGIN, SYSTEM, DoctorRig, record

ERROR, WARNING = "error", "warning"


@pytest.fixture
async def rig(tmp_path: Path) -> AsyncIterator[DoctorRig]:
    async with DoctorRig(tmp_path) as running:
        yield running


def pod_of_status(uid: str, **parts: Any) -> dict[str, Any]:
    """A pod recorded on card 0, to which the kubelet gave ids of card 1."""
    pod = PodOnNode(
        pod="default/moved",
        uid=uid,
        units=4,
        recorded_cards=(0,),
        assigned=True,
        held_by_card={1: 4},
        containers={"main": {1: 4}},
        unconfirmed=(),
    )
    return {**msgspec.to_builtins(pod, str_keys=True), **parts}


@pytest.mark.parametrize(
    ("asked", "severity", "kind", "number"),
    [
        pytest.param(
            lambda: {"units": 4, "node": "", "annotations": {"gcushare.io/cards": "many"}},
            WARNING, "request-refused", "'many'", id="half a unit",
        ),
        pytest.param(
            lambda: {"units": 4, "record": record(0, 4, assigned=False)},
            WARNING, "stale-reservation", "card 0 of n1 was reserved for it 10 min ago", id="never taken up",
        ),
        pytest.param(
            lambda: {"units": 4},
            WARNING, "unrecorded-pod", "bound to n1 10 min ago, asks for 4", id="no record",
        ),
        pytest.param(
            lambda: {"units": 4, "node": "", "record": record(0, 4), "age_s": 5},
            WARNING, "forged-record", "not bound", id="a record on a waiting pod",
        ),
        pytest.param(
            lambda: {"units": 4, "record": record(5, 4)},
            ERROR, "forged-record", "names card 5, and node n1 has 0, 1", id="a card that is missing",
        ),
        pytest.param(
            lambda: {"units": 4, "record": record(0, 4, age_s=7200)},
            WARNING, "forged-record", "110 min before the pod", id="older than the pod",
        ),
        pytest.param(
            lambda: {"units": 4, "record": record(0, 1)},
            WARNING, "forged-record", "says 1 unit (", id="other units",
        ),
        pytest.param(
            lambda: {"units": 4, "node": "", "annotations": {"gcushare.io/node-polcy": "spread"}, "age_s": 5},
            WARNING, "unread-key", "gcushare.io/node-policy? 1 pod has it: default/wrong", id="a misspelt key",
        ),
        pytest.param(
            lambda: {"units": None, "record": record(0, 4)},
            WARNING, "forged-record", "asks for no", id="a pod that asks for nothing",
        ),
    ],
)  # fmt: skip
async def test_what_is_wrong_with_a_pod_is_found_and_nothing_else(
    rig: DoctorRig, asked: Callable[[], dict[str, Any]], severity: str, kind: str, number: str
) -> None:
    rig.put_asking("wrong", **{"node": NODE, **asked()})  # Made now: records carry the time.
    (await rig.examine()).assert_only(severity, kind, number)


async def test_ids_of_another_card_than_the_recorded_one_are_found(rig: DoctorRig) -> None:
    made = rig.put_asking("moved", 4, node=NODE, record=record(0, 4))
    rig.set_status(pods=[pod_of_status(made["metadata"]["uid"])])
    (await rig.examine()).assert_only(ERROR, "record-differs", "card 0 of n1, and the kubelet gave it ids of card 1")


@pytest.mark.parametrize("part", ["containers", "initContainers"])
@pytest.mark.parametrize("source", [{"value": "all"}, {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])
async def test_a_pod_that_chooses_its_visible_cards_itself_is_found(
    rig: DoctorRig, part: str, source: dict[str, Any]
) -> None:
    document = pod_document("own", 4, node=NODE, record=record(0, 4))
    container = {"name": "setter", "image": "busybox", "env": [{"name": "ENFLAME_VISIBLE_DEVICES", **source}]}
    document["spec"].setdefault(part, []).append(container)
    rig.put_pod(document, age_s=600.0, phase="Running", conditions=[])
    (await rig.examine()).assert_only(WARNING, "own-visible-devices", "container 'setter' sets ENFLAME_VISIBLE_DEVICES")
    command = ["gcushare-device-plugin", "--device-list-strategy", "cdi"]
    rig.change("pods", PLUGIN, lambda pod: pod["spec"]["containers"][0].update(command=command), SYSTEM)
    assert (await rig.examine()).kinds == set()


@pytest.mark.parametrize(
    "parts",
    [
        pytest.param({"unconfirmed": ["main"]}, id="the kubelet has not confirmed it yet"),
        pytest.param({"recordedCards": [1]}, id="the plugin has corrected it since"),
        pytest.param({"heldByCard": {}}, id="it holds nothing yet"),
        pytest.param({"recordedCards": None}, id="an old plugin knows of no record"),
        pytest.param({"uid": "of-a-pod-that-is-gone"}, id="the pod is gone"),
    ],
)
async def test_a_record_under_correction_is_no_difference(rig: DoctorRig, parts: dict[str, Any]) -> None:
    made = rig.put_asking("moved", 4, node=NODE, record=record(0, 4))
    rig.set_status(
        pods=[pod_of_status(made["metadata"]["uid"], **parts) if "uid" not in parts else pod_of_status(**parts)]
    )
    assert (await rig.examine()).kinds == set()


async def test_pods_that_ended_hold_and_forge_nothing(rig: DoctorRig) -> None:
    for name in ("a", "b"):
        made = pod_document(name, 10, node=NODE, record=record(7, 1))
        rig.put_pod(made, age_s=600, phase="Succeeded", conditions=[])
    assert (await rig.examine()).kinds == set()
