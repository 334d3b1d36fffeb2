"""What any node or pod may say leaves the extender's state with figures and documents that can be written and read."""

from __future__ import annotations

import json
import re
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from gcushare.core.errors import RemoteContractError
from gcushare.core.node_rules import NodePlace, NodeRules, Obstacle, Taint
from gcushare.scheduler_extender.metrics import VendorCollector
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.vendors import ENFLAME
from gcushare.wire.documents.inspect import CLOSING, OPENING, decode_document, encode_node
from gcushare.wire.dra.claims import POD_WITH_CLAIMS, RESOURCE_CLAIM
from gcushare.wire.objects import NODE, POD
from tests.builders import asks
from tests.extender_objects import node_document, on_card, pod_document, state_of
from tests.unit.extender_cluster import Cluster
from tests.unit.extender_desk import services_of

NUMBERS = re.compile(r"(?<![\w.])\d+(?![\w.])")
NODES = json.dumps(node_document("bad", 16, 16))
PODS = json.dumps(pod_document("bad", "4", node="bad", record=on_card(0, 4)))
OTHER_NUMBERS = st.sampled_from(
    ["0", "-1", "1" + "0" * 18, str(2**63 - 1), str(2**63), "1" + "0" * 400, "1e400", "1.5", "[" * 1500, '"x"', "null"]
)  # fmt: skip


@st.composite
def with_other_numbers(draw: st.DrawFn, text: str) -> bytes:
    """A document in which some numbers, also in annotations and quantities, were changed."""
    for _ in range(draw(st.integers(1, 3))):
        found = draw(st.sampled_from(list(NUMBERS.finditer(text))))
        text = text[: found.start()] + draw(OTHER_NUMBERS).replace('"', "") + text[found.end() :]
    return text.encode()


def figures(state: VendorState) -> str:
    registry = CollectorRegistry()
    registry.register(VendorCollector([services_of(state, None, Cluster().client)]))
    return generate_latest(registry).decode()


@pytest.mark.slow
@given(st.lists(with_other_numbers(NODES), max_size=2), st.lists(with_other_numbers(PODS), max_size=3))
def test_figures_and_documents_can_be_made_of_whatever_nodes_and_pods_say(
    nodes: list[bytes], pods: list[bytes]
) -> None:
    state = state_of(NODE.read(json.dumps(node_document("good", 16)).encode()))
    for number, body in enumerate(nodes):
        with suppress(RemoteContractError):
            state.node_applied(NODE.read(body.replace(b'"bad"', b'"bad-%d"' % number)))
    for number, body in enumerate(pods):
        with suppress(RemoteContractError):
            state.pod_applied(POD.read(body.replace(b'"uid-bad"', b'"uid-%d"' % number).replace(b'"bad"', b'"bad-0"')))

    assert 'gcushare_units_free{unit="1",vendor="enflame"}' in figures(state)
    assert state.ledger.nodes["good"].fits(asks(16))
    document = b",".join(encode_node(ENFLAME, each) for each in state.ledger.nodes.values())
    assert "good" in [each.name for each in decode_document(OPENING + document + CLOSING)]


WORDS = [f"k{number:05}" for number in range(20_000)]
LARGE = {
    "nodeSelector": dict.fromkeys(WORDS, ""),
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "NotIn", "values": WORDS}]}]
            }
        }
    },
    "tolerations": [{"key": word, "operator": "Exists"} for word in WORDS],
    "schedulingGates": [{"name": word} for word in WORDS],
    "resourceClaims": [{"name": word, "resourceClaimName": word} for word in WORDS],
    "initContainers": [{"name": word, "image": ""} for word in WORDS],
}
LARGE_METADATA = {
    "labels": dict.fromkeys(WORDS, ""),
    "annotations": {f"gcushare.io/{word}": "" for word in WORDS},
    "ownerReferences": [{"kind": "K" * 600_000, "name": "n" * 600_000, "uid": "u", "controller": True}],
}
"""The text of an owner has no limit but that of the object."""


@pytest.mark.slow
@pytest.mark.parametrize("part", [*LARGE, *LARGE_METADATA])
def test_little_stays_in_memory_of_a_pod_as_large_as_an_object_may_be(part: str) -> None:
    document = pod_document("large", 4)
    document["spec"]["resourceClaims"] = [{"name": "a", "resourceClaimName": "theirs"}]
    if part in LARGE:
        document["spec"][part] = LARGE[part]
    else:
        document["metadata"][part] = LARGE_METADATA[part]
    text = json.dumps(document)
    state = state_of(NODE.read(json.dumps(node_document("n", 16)).encode()))
    state.pod_applied(POD_WITH_CLAIMS.read(text.replace("uid-large", "uid-before")))
    tracemalloc.start()
    state.pod_applied(POD_WITH_CLAIMS.read(text))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert state.find_waiting("uid-large") is not None
    assert kept < 256 * 1024


@pytest.mark.parametrize(
    "part",
    [
        {"capacity": {"requests": {"memory": "4Gi", **dict.fromkeys(WORDS, "1")}}},
        {"capacity": {"requests": {"memory": "4Gi", "a" * 1_200_000: "1"}}},
        {"tolerations": LARGE["tolerations"]},
    ],
    ids=["many amounts", "a long name", "many tolerations"],
)
def test_little_stays_in_memory_of_a_claim_as_large_as_an_object_may_be(part: dict[str, Any]) -> None:
    request = {"name": "r", "exactly": {"deviceClassName": ENFLAME.claims.memory_class, **part}}
    claim = {
        "metadata": {"name": "large", "namespace": "default", "uid": "uid-large"},
        "spec": {"devices": {"requests": [request]}},
    }
    text, state = json.dumps(claim), state_of()
    state.claim_applied(RESOURCE_CLAIM.read(text.replace("uid-large", "uid-before")))
    tracemalloc.start()
    state.claim_applied(RESOURCE_CLAIM.read(text))
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "uid-large" in state.claims.uids
    assert kept < 64 * 1024


@pytest.mark.slow
def test_rules_that_are_too_many_to_be_read_say_nothing_of_a_node() -> None:
    place = NodePlace("n", {"zone": "a"}, (Taint("full", "", "NoSchedule"),))
    few, many = (NodeRules(tuple((word, "") for word in WORDS[:count])).bounded() for count in (1_000, 2_000))
    assert few.find_obstacle(place) == Obstacle("taint full:NoSchedule")
    assert many.find_obstacle(place) is None
