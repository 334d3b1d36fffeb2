"""kube-scheduler may ask the extender about pods with claims: it names a node, and binds them without a record."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gcushare.core.cards import BOTH_MODES, SERVES_CLAIMS
from gcushare.core.units import GIB
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.vendors import ENFLAME
from gcushare.wire.dra.claims import ClaimSpec, ConsumerReference, ResourceClaim, asked_of_claim
from gcushare.wire.objects import PodResourceClaim
from tests.builders import cards
from tests.extender_objects import Document, a_node, a_pod, as_pod, as_whole, inventory_text, pod_document, state_of
from tests.unit.claims_driver_values import a_claim, a_result
from tests.unit.extender_cluster import Cluster
from tests.unit.extender_desk import Caller

MARK = ENFLAME.claims.extender_resource
CLAIMS = (SERVES_CLAIMS,)


def claiming_document(name: str, units: int, **annotations: str) -> Document:
    """A pod as the admission policy leaves it."""
    found = pod_document(name, None, annotations=annotations)
    resources = {
        "limits": {MARK: str(units)},
        "requests": {MARK: str(units)},
        "claims": [{"name": "gcushare-gcu-memory"}],
    }
    found["spec"]["containers"][0]["resources"] = resources
    claim = {"name": "gcushare-gcu-memory", "resourceClaimTemplateName": f"gcu-memory-{units}"}
    found["spec"]["resourceClaims"] = [claim]
    return found


def allocated(pod: str, node: str, card: int, units: int) -> ResourceClaim:
    """The claim of a pod once kube-scheduler has allocated it."""
    claim = a_claim(f"claim-of-{pod}", msgspec.structs.replace(a_result(f"card-{card}", units), pool=node))
    users = (ConsumerReference(resource="pods", name=pod, uid=f"uid-{pod}"),)
    return msgspec.structs.replace(claim, status=msgspec.structs.replace(claim.status, reserved_for=users))


class Side(Caller):
    """The caller of an extender with two nodes that serve claims, and one that serves resources."""

    def __init__(self, *documents: Document) -> None:
        nodes = (a_node(name, 16, 16, modes=CLAIMS) for name in ("claims-1", "claims-2"))
        super().__init__(Cluster(*map(as_pod, documents)), state_of(*nodes, a_node("resources", 16, 16)))

    def allocate(self, pod: str, node: str, card: int, units: int) -> None:
        self.state.claim_applied(allocated(pod, node, card, units))

    async def named(self, document: Document, *nodes: str) -> list[str]:
        """The nodes that filter names."""
        found: list[str] = (await self.filter(document, *nodes))["NodeNames"]
        return found


async def test_a_claim_is_sent_to_the_fullest_node_with_room() -> None:
    small, large = claiming_document("small", 4), claiming_document("large", 12)
    side = Side(small, large)
    side.allocate("first", "claims-2", 0, 8)
    side.allocate("second", "claims-2", 1, 8)
    assert await side.named(small, "claims-1", "claims-2") == ["claims-2"]
    assert await side.named(large, "claims-1", "claims-2") == ["claims-1"]


async def test_a_pod_that_is_to_be_spread_is_sent_to_the_emptiest_node() -> None:
    document = claiming_document("wide", 4, **{"gcushare.io/node-policy": "spread"})
    side = Side(document)
    side.allocate("first", "claims-1", 0, 8)
    assert await side.named(document, "claims-1", "claims-2") == ["claims-2"]


async def test_no_node_is_refused_to_a_claim() -> None:
    """The ledger may be behind: kube-scheduler asks only about nodes on which it found room."""
    document = claiming_document("a", 16)
    side = Side(document)
    for number, node in enumerate(("claims-1", "claims-2")):
        for card in (0, 1):
            side.allocate(f"old-{number}-{card}", node, card, 16)
    assert await side.named(document, "claims-1", "claims-2") == ["claims-1", "claims-2"]


async def test_a_pod_that_asks_for_the_resource_goes_to_no_node_that_serves_claims() -> None:
    document = pod_document("plain", 4)
    side = Side(document)
    assert await side.named(document, "claims-1", "claims-2", "resources") == ["resources"]


@pytest.mark.parametrize("is_allocated", [False, True])
async def test_a_pod_with_a_claim_is_bound_without_a_record(is_allocated: bool) -> None:
    """The watch may show before the bind that kube-scheduler has allocated the claim."""
    side = Side(claiming_document("a", 4))
    (node,) = await side.named(claiming_document("a", 4), "claims-1", "claims-2")
    if is_allocated:
        side.allocate("a", node, 0, 4)
    assert await side.bind_error("a", node) == ""
    pod = side.cluster.pods["default", "a"]
    assert pod.spec.node_name == node
    assert not {ENFLAME.record.card_index, "gcushare.io/card-uuid"} & pod.metadata.annotations.keys()
    assert not side.state.ledger.reserved


async def test_a_pod_whose_bind_failed_is_filtered_and_bound_again() -> None:
    """Its claim stays allocated meanwhile, which does not mean that it is bound."""
    document = claiming_document("a", 4)
    side = Side(document)
    side.allocate("a", "claims-2", 0, 4)
    assert await side.named(document, "claims-2") == ["claims-2"]
    assert await side.bind_error("a", "claims-2") == ""
    assert len(side.cluster.bindings) == 1


async def test_a_pod_with_a_claim_is_bound_only_where_filter_or_its_claim_says() -> None:
    side = Side(claiming_document("a", 4))
    assert "has not passed filter here lately" in await side.bind_error("a", "claims-1")
    (node,) = await side.named(claiming_document("a", 4), "claims-1", "claims-2")
    other = "claims-2" if node == "claims-1" else "claims-1"
    assert "filter did not name" in await side.bind_error("a", other)
    side.allocate("a", node, 0, 4)
    assert await side.bind_error("a", other) != ""
    assert side.cluster.bindings == []


async def test_a_pod_that_the_watch_has_not_brought_is_let_through() -> None:
    document = claiming_document("new", 4)
    side = Side()
    side.cluster.put(as_pod(document))
    assert await side.named(document, "claims-1", "claims-2") == ["claims-1", "claims-2"]
    assert await side.bind_error("new", "claims-2") == ""


async def test_a_whole_card_is_taken_on_a_node_that_serves_claims_if_no_other_has_one() -> None:
    document = pod_document("whole", whole=1)
    side = Side(document)
    assert await side.named(document, "claims-1", "resources") == ["claims-1"]
    side.state.node_applied(a_node("both", 16, modes=("memory", "whole")))
    assert await side.named(document, "claims-1", "both") == ["both"]
    side.state.pod_applied(a_pod("taker", whole=1, node="both", record=as_whole(0)))
    assert await side.named(document, "claims-1", "both") == ["claims-1"]
    side.allocate("whole", "claims-1", 1, 16)
    assert await side.bind_error("whole", "claims-1") == ""
    assert ENFLAME.record.card_index not in side.cluster.pods["default", "whole"].metadata.annotations


def own_claim(name: str, amounts: dict[str, str], *, klass: str = ENFLAME.claims.memory_class, count: int = 1) -> Any:
    exactly = {"deviceClassName": klass, "count": count, "capacity": {"requests": amounts}}
    document = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"devices": {"requests": [{"name": "gcu", "exactly": exactly}]}},
    }
    return msgspec.convert(document, ResourceClaim)


@pytest.mark.parametrize("claim_first", [True, False], ids=["claim first", "pod first"])
def test_a_pod_that_names_a_claim_of_its_author_waits_like_one_of_the_policy(claim_first: bool) -> None:
    state = state_of(a_node("n", 16, 16, modes=CLAIMS))
    pod = a_pod("p", None)
    entry = PodResourceClaim(name="x", resource_claim_name="mine")
    pod = msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, resource_claims=(entry,)))
    claim = own_claim("mine", {"memory": "4Gi"}, count=2)
    if claim_first:
        state.claim_applied(claim)
    state.pod_applied(pod)
    state.claim_applied(claim)
    (waiting,) = state.claiming.values()
    assert isinstance(waiting, SchedulingRequest)
    assert (waiting.cards.units, waiting.cards.cards, waiting.cards.whole) == (4, 2, False)
    touched = msgspec.structs.replace(claim.metadata, resource_version="9")
    state.claim_applied(msgspec.structs.replace(claim, metadata=touched))
    assert state.claiming[pod.metadata.uid] is waiting, "pods are read again only if the claim says something else"
    in_mib = inventory_text(cards(16 << 10), modes=CLAIMS, unit="MiB")
    state.node_applied(a_node("n", 16, modes=CLAIMS, annotations={ENFLAME.inventory_annotation: in_mib}))
    assert [each.cards.units for each in state.claiming.values() if isinstance(each, SchedulingRequest)] == [4 << 10]
    allocated = a_claim("uid-other", a_result("card-0", 4, pool="n"))
    state.claim_applied(msgspec.structs.replace(claim, status=allocated.status))
    assert not state.claiming, "it waits for no card any more"
    state.claim_deleted("uid-mine")
    assert (state.claiming, state.names.find("default", "p")) == ({}, [])
    state.claim_applied(own_claim("mine", {}, klass=ENFLAME.claims.whole_class))
    state.node_applied(a_node("plain", 16, modes=BOTH_MODES))
    assert (list(state.claiming), state.waiting) == (["uid-p"], {}), (
        "a claim stays one when a plugin serves whole cards"
    )
    state.claim_applied(own_claim("of-another", {"memory": "4Gi"}))
    state.pods_retained(frozenset(), "9")
    assert (state.claiming, state.claims.noted_pods) == ({}, frozenset())


@pytest.mark.parametrize(
    ("amounts", "klass", "expected"),
    [
        ({"memory": "4Gi"}, ENFLAME.claims.memory_class, (4, 1, False)),
        ({"memory": "500m"}, ENFLAME.claims.memory_class, (1, 1, False)),
        ({"memory": "4.5Gi"}, ENFLAME.claims.memory_class, (5, 1, False)),
        ({}, ENFLAME.claims.memory_class, (0, 1, True)),
        ({"memory": "a lot"}, ENFLAME.claims.memory_class, (0, 1, True)),
        ({}, ENFLAME.claims.whole_class, (0, 1, True)),
        ({"memory": "4Gi"}, "nic.example.com", None),
    ],
)
def test_what_a_claim_of_an_author_asks_for(
    amounts: dict[str, str], klass: str, expected: tuple[int, int, bool] | None
) -> None:
    exactly = {"deviceClassName": klass, "capacity": {"requests": amounts}}
    other = {"name": "b", "deviceClassName": "nic.example.com", "capacity": {"requests": {"memory": "99Gi"}}}
    assert asked({"exactly": exactly}) == expected
    choices = [other, {"name": "a", **exactly}, {"name": "c", **exactly, "count": 3}]
    assert asked({"firstAvailable": choices}) == expected
    of_memory = {**other, "deviceClassName": ENFLAME.claims.memory_class}
    assert asked({"firstAvailable": [of_memory, other]}) == (99, 1, False)
    assert asked({"exactly": {**exactly, "adminAccess": True}}) is None
    both = [{"exactly": {**of_memory, "capacity": {"requests": {"memory": amount}}}} for amount in ("12Gi", "4Gi")]
    assert asked(*both) == (12, 1, False), "they may be of one card"


def asked(*requests: dict[str, Any]) -> tuple[int, int, bool] | None:
    spec = msgspec.convert({"devices": {"requests": [{"name": "gcu", **each} for each in requests]}}, ClaimSpec)
    found = asked_of_claim(spec, ENFLAME)
    return None if found is None else (-(-found.memory_bytes // GIB), found.cards, found.is_whole)
