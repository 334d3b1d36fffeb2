"""Allocated claims become assignments: which pod they count for, how many units, and when they stop counting."""

from __future__ import annotations

import msgspec
import pytest

from gcushare.core.assignments import CardGrant
from gcushare.core.nodes import NodeState
from gcushare.vendors import ENFLAME
from gcushare.wire.dra.claim_holders import ClaimHolders
from gcushare.wire.dra.claims import AllocationResult, ClaimStatus, ConsumerReference, ResourceClaim
from tests.builders import present
from tests.unit.claims_driver_values import NODE, a_claim, a_result, an_inventory, whole_result


def holders_on(*sizes: int) -> ClaimHolders:
    """Claims of a cluster with one node."""
    inventory = an_inventory(*sizes)
    node = NodeState(NODE)
    node.set_cards(inventory.cards, inventory.unit)
    return ClaimHolders(ENFLAME, {NODE: node}.get)


def reserved_for(claim: ResourceClaim, *pods: str) -> ResourceClaim:
    users = tuple(ConsumerReference(resource="pods", name=pod, uid=f"uid-{pod}") for pod in pods)
    status = msgspec.structs.replace(claim.status, reserved_for=users)
    return msgspec.structs.replace(claim, status=status)


def grants(holders: ClaimHolders, uid: str) -> tuple[CardGrant, ...]:
    found = present(holders.find(uid))
    assert found.assigned
    return found.grants


def test_memory_and_whole_cards_count_in_the_nodes_unit() -> None:
    holders = holders_on(16, 32)
    assert holders.update(a_claim("one", a_result("card-0", 4), a_result("card-1", 4))) == {"one"}
    assert holders.update(a_claim("two", whole_result("card-1", 32))) == {"two"}
    assert grants(holders, "one") == (CardGrant(0, 4), CardGrant(1, 4))
    assert grants(holders, "two") == (CardGrant(1, 32, whole=True),)


def test_a_part_of_a_unit_counts_as_a_unit() -> None:
    holders = holders_on(16)
    claim = a_claim("one", msgspec.structs.replace(a_result("card-0"), consumed_capacity={"memory": "1025Mi"}))
    holders.update(claim)
    assert grants(holders, "one") == (CardGrant(0, 2),)


def test_a_claim_that_several_pods_share_counts_once_under_the_first() -> None:
    holders = holders_on(16)
    claim = a_claim("shared", a_result("card-0", 4))
    assert holders.update(reserved_for(claim, "first", "second")) == {"uid-first"}
    assert holders.find("uid-second") is None
    assert holders.update(reserved_for(claim, "second")) == {"uid-first", "uid-second"}
    assert holders.find("uid-first") is None
    assert grants(holders, "uid-second") == (CardGrant(0, 4),)


def test_the_claims_of_one_pod_are_one_assignment() -> None:
    holders = holders_on(16, 16)
    holders.update(reserved_for(a_claim("a", a_result("card-0", 4)), "pod"))
    holders.update(reserved_for(a_claim("b", a_result("card-0", 2)), "pod"))
    assert grants(holders, "uid-pod") == (CardGrant(0, 6),)
    assert holders.remove("a") == {"uid-pod"}
    assert grants(holders, "uid-pod") == (CardGrant(0, 2),)


def test_a_claim_without_a_pod_counts_under_its_own_name_until_it_is_deallocated() -> None:
    holders = holders_on(16)
    claim = reserved_for(a_claim("left", a_result("card-0", 4)))
    holders.update(claim)
    assert str(present(holders.find("left")).pod) == "default/left"
    assert holders.update(msgspec.structs.replace(claim, status=ClaimStatus())) == {"left"}
    assert holders.find("left") is None


def test_an_equal_state_changes_nothing_and_a_claim_that_is_gone_is_forgotten() -> None:
    holders = holders_on(16)
    claim = a_claim("one", a_result("card-0", 4))
    holders.update(claim)
    assert holders.update(claim) == frozenset()
    assert holders.uids == {"one"}
    assert holders.remove("one") == {"one"}
    assert holders.uids == set()
    assert not holders.holds("one")


@pytest.mark.parametrize(
    "result",
    [
        pytest.param(AllocationResult(request="card", driver="gpu.nvidia.com", pool=NODE, device="gpu-0"), id="theirs"),
        pytest.param(msgspec.structs.replace(a_result("card-0"), admin_access=True), id="an administrator's look"),
    ],
)
def test_a_device_that_takes_nothing_of_ours_is_not_stored(result: AllocationResult) -> None:
    assert holders_on(16).update(a_claim("one", result)) == frozenset()


@pytest.mark.parametrize(
    ("results", "words"),
    [
        pytest.param((a_result("gpu-0", 4),), "device 'gpu-0' cannot be read; expected card-N", id="device"),
        pytest.param(
            (a_result("card-0", 4), a_result("card-0", 4, pool="node-2")),
            "the claim has devices of several nodes: node-1, node-2",
            id="nodes",
        ),
    ],
)
def test_a_claim_that_cannot_be_read_is_reported_and_counts_for_nothing(
    results: tuple[AllocationResult, ...], words: str
) -> None:
    holders = holders_on(16)
    holders.update(a_claim("odd", *results))
    assert holders.problems == {"odd": f"claim default/odd cannot be read: {words}"}
    holders.update(a_claim("odd", a_result("card-0", 4)))
    assert holders.problems == {}


def test_what_a_pod_shares_is_found_by_its_uid_and_name_and_ends_with_the_claim() -> None:
    holders = holders_on(16, 16)
    holders.update(reserved_for(a_claim("shared", a_result("card-0", 4)), "first", "second", "third"))
    holders.update(reserved_for(a_claim("too", a_result("card-1", 2)), "first", "second"))
    holders.update(reserved_for(a_claim("own", a_result("card-1", 3)), "second"))

    assert [pod.name for pod in present(holders.find("uid-first")).sharers] == ["second", "third"]
    shared = present(holders.find_shared("uid-second"))
    assert (shared.pod.name, shared.grants) == ("second", (CardGrant(0, 4), CardGrant(1, 2)))
    assert holders.find_sharer("default", "second") == shared
    assert grants(holders, "uid-second") == (CardGrant(1, 3),), "its own counts apart"
    assert [pod.name for pod in holders.pods_sharing_with("uid-third")] == ["first", "second"]
    assert holders.find_shared("uid-first") is holders.find_sharer("default", "first") is None

    holders.remove("too")
    holders.update(reserved_for(a_claim("shared", a_result("card-0", 4)), "third"))
    assert holders.find_shared("uid-second") is holders.find_sharer("default", "third") is None
    assert grants(holders, "uid-third") == (CardGrant(0, 4),)
