"""From a claim's allocation to the devices that are prepared for it: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.cards import BOTH_MODES, Inventory
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.nodes import NodeState
from gcushare.core.quantities import parse_count
from gcushare.core.units import MemoryUnit
from gcushare.core.wording import counted, index_text, some_names
from gcushare.node.container_environment import Grant
from gcushare.vendors.vendor import ClaimNames
from gcushare.wire.dra.checkpoint import PreparedClaim, PreparedDevice
from gcushare.wire.dra.claim_names import parse_device_name
from gcushare.wire.dra.claims import AllocationResult, ResourceClaim, claimed_grants

_MAX_NAMES = 5


def read_devices(claim: ResourceClaim, uid: str, names: ClaimNames, pool: str) -> tuple[PreparedDevice, ...]:
    """Read what a claim was allocated of this driver on this node.

    A device is whole if the claim asks for it by the class of whole cards.

    ``uid``: the claim that the kubelet asks for.

    Raises:
        Refused: it is another claim of that name, is not allocated, or not to this node.
        RemoteContractError: a result cannot be read.
    """
    if claim.metadata.uid != uid:
        raise Refused(
            f"the claim has uid {claim.metadata.uid!r} now, not {uid!r}: it was deleted and recreated; delete the pod"
        )
    results = claim.results_of(names.driver)
    if not results:
        raise Refused(f"the claim has no devices of {names.driver}: it is not allocated, or was deallocated")
    devices = tuple(_read_result(each, pool, whole=claim.class_of(each) == names.whole_class) for each in results)
    if len({each.whole for each in devices}) > 1:
        raise Refused("the claim holds memory of one card and another card whole: make a claim for each of them")
    return devices


def _read_result(result: AllocationResult, pool: str, *, whole: bool) -> PreparedDevice:
    if result.pool != pool:
        raise Refused(f"device {result.device!r} is in pool {result.pool!r}, and this node serves {pool!r} alone")
    if result.admin_access:
        raise Refused(
            f"device {result.device!r} was allocated with adminAccess, which counts no memory of the card: leave "
            "adminAccess out of the claim"
        )
    index = parse_device_name(result.device)
    if index is None:
        raise RemoteContractError(f"device {result.device!r} is none of this node: expected card-N")
    consumed = result.consumed_memory()
    memory_bytes = parse_count(consumed) if consumed is not None else 0
    if memory_bytes == 0:
        raise RemoteContractError(f"device {result.device!r} was allocated without an amount of memory")
    return PreparedDevice(
        # An alternative of a request is REQUEST/ALTERNATIVE; the kubelet knows the request.
        request=result.request.partition("/")[0],
        device=result.device,
        index=index,
        memory_bytes=memory_bytes,
        whole=whole,
        share_id=result.share_id,
    )


def assignment_of(claim: PreparedClaim, unit: MemoryUnit, node: str) -> Assignment:
    """A prepared claim as the ledger counts it."""
    cards = ((each.index, each.memory_bytes, each.whole) for each in claim.devices)
    reference = PodRef(claim.uid, claim.namespace, claim.name)
    return Assignment(reference, node, claimed_grants(cards, unit), assigned=True)


def check_room(
    wanted: Assignment, inventory: Inventory, others: Iterable[Assignment], names: Mapping[str, str]
) -> None:
    """Check that the cards of a claim are on this node and have room next to the claims that are prepared already.

    The scheduler has checked it; this check holds against a second scheduler and a forged status of a claim. ``names``:
    the other claims' names by uid, for the message.

    Raises:
        Refused: a card is not here, or is taken; names the claims that hold it.
    """
    node = NodeState(wanted.node)
    node.set_cards(inventory.cards, inventory.unit, BOTH_MODES)
    for other in others:
        node.add(other)
    for grant in wanted.grants:
        card = node.cards.get(grant.index)
        if card is None or card.card is None:
            known = index_text(each.index for each in inventory.cards)
            raise Refused(f"card {grant.index} is not on this node any more; its cards are {known}")
        if grant.whole and grant.units < card.total:
            raise Refused(
                f"the claim holds a card whole and {counted(grant.units, 'unit')} of it: card {grant.index} has "
                f"{card.total}; leave an amount out, use the class of memory shares, or allocate it again"
            )
        holders = [
            names[uid]
            for uid, other in node.assignments.items()
            if any(each.index == grant.index for each in other.grants)
        ]
        if (grant.whole and holders) or (not grant.whole and card.free < grant.units):
            asked = "the whole card" if grant.whole else counted(grant.units, "unit")
            raise Refused(
                f"card {grant.index} has {card.free} of {counted(card.total, 'unit')} free, and the claim holds "
                f"{asked}: claims "
                f"{some_names(sorted(holders), _MAX_NAMES) or 'none'} hold the rest; delete the pod to have it placed "
                "again"
            )


def grant_of(assignment: Assignment, inventory: Inventory) -> Grant:
    """What each container of the claim is given: all its cards, and the sum of its units."""
    cards = {card.index: card for card in inventory.cards}
    whole = assignment.grants[0].whole
    return Grant(tuple(cards[grant.index] for grant in assignment.grants), assignment.units, whole=whole)
