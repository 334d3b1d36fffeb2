"""filter and bind pass few modules beyond those that docs/architecture.md names in their journeys."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import FrameType

from tests.extender_objects import a_node, a_pod, filter_body, pod_document, state_of
from tests.unit.extender_cluster import Cluster
from tests.unit.extender_desk import dispatcher_of
from tests.unit.test_architecture import DOCUMENTS, HOUSE, journeys

PASSED_BY_EVERYTHING = {
    "core/nodes",  # the ledger's values
    "core/matching",  # what the kubelet will ask for the pod
    "core/preemption/kept_room",
    "core/requests",  # what the pod needs of a card
    "core/log_fields",
    "runtime/logs",
    "scheduler_extender/inspect_documents",  # hears that the ledger changed
    "scheduler_extender/leadership",
    "scheduler_extender/state/nominations",
    "scheduler_extender/state/pod_stores",
    "scheduler_extender/state/starting_pods",  # looks whether another pod has to start first
    "scheduler_extender/state/preferences",  # what was learned for one policy; all others go on to placement
    "scheduler_extender/waking/waker",  # hears that the ledger changed
    "wire/objects",
}
"""What a request meets on its way that does not decide on it: values, and state that others keep."""


async def test_filter_and_bind_run_in_the_modules_that_the_document_names() -> None:
    pod = a_pod("p", 4)
    state = state_of(a_node("node-1", 16, 16))
    state.on_pod_update(pod)
    dispatcher = dispatcher_of((state, None), cluster=Cluster(pod))
    ran: set[str] = set()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(HOUSE):
            ran.add(str(path.relative_to(HOUSE).with_suffix("")))

    sys.setprofile(note)
    try:
        dispatcher.filter(filter_body(pod_document("p", 4), ["node-1"]))
        body = {"PodName": "p", "PodNamespace": "default", "PodUID": "uid-p", "Node": "node-1"}
        answer = await dispatcher.bind(json.dumps(body).encode())
    finally:
        sys.setprofile(None)

    assert answer.result == "bound"
    filtered, bound, *_ = journeys(DOCUMENTS[0].read_text())
    unnamed = ran - PASSED_BY_EVERYTHING - {*filtered, *bound}
    assert unnamed == set()
    assert len(ran) <= 25
