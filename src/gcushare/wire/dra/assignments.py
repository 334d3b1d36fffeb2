"""From allocated ResourceClaims to assignments of the ledger, so that claims count like pods with a record.

An assignment belongs to the first pod that a claim is reserved for, and has all claims of that pod. A claim that
several pods share counts once, under that pod. A claim that no pod is reserved for is still taken from its card: it
counts under its own name and uid until it is deallocated.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gcushare.core.claim_names import claimed_units, parse_device_name
from gcushare.core.errors import RemoteContractError
from gcushare.core.nodes import Assignment, CardGrant, PodRef
from gcushare.core.quantities import parse_count
from gcushare.core.units import MemoryUnit
from gcushare.vendors.vendor import Vendor
from gcushare.wire.dra.claims import AllocationResult, ResourceClaim


@dataclass(frozen=True, slots=True)
class ClaimedCard:
    """What a claim takes of one card: so many bytes, or all of it if ``memory_bytes`` is None."""

    index: int
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class ClaimHolding:
    """The cards that one allocated claim takes on a node, and the pod that it counts under."""

    uid: str
    holder: PodRef
    node: str
    cards: tuple[ClaimedCard, ...]


def read_holding(claim: ResourceClaim, vendor: Vendor) -> ClaimHolding | None:
    """Read what a claim takes of this vendor's cards; None if it is not allocated any.

    Raises:
        RemoteContractError: a device or an amount cannot be read, or the devices are on several nodes.
    """
    # The scheduler counts a device of which an administrator only inspects the use as free.
    results = [each for each in claim.results_of(vendor.claims.driver) if not each.admin_access]
    if not results:
        return None
    nodes = {each.pool for each in results}
    if len(nodes) > 1:
        raise RemoteContractError(f"the claim has devices of several nodes: {', '.join(sorted(nodes))}")
    whole_class = vendor.claims.whole_class
    cards = tuple(_read_card(each, is_whole=claim.class_of(each) == whole_class) for each in results)
    return ClaimHolding(claim.metadata.uid, _holder_of(claim), nodes.pop(), cards)


def claims_assignment(
    holdings: Iterable[ClaimHolding], unit: MemoryUnit, units_by_card: Mapping[int, int]
) -> Assignment | None:
    """Add up what the claims of one holder take on one node; None for no claims.

    ``units_by_card`` are the sizes of the node's cards: all that a whole card is.
    """
    held = list(holdings)
    if not held:
        return None
    units: dict[int, int] = {}
    wholes: set[int] = set()
    for card in (card for holding in held for card in holding.cards):
        if card.memory_bytes is None:
            wholes.add(card.index)
        units[card.index] = units.get(card.index, 0) + claimed_units(card.memory_bytes or 0, unit)
    grants = tuple(
        CardGrant(index, units_by_card.get(index, 0) if index in wholes else units[index], index in wholes)
        for index in sorted(units)
    )
    return Assignment(held[0].holder, held[0].node, grants, assigned=True)


def _read_card(result: AllocationResult, *, is_whole: bool) -> ClaimedCard:
    index = parse_device_name(result.device)
    if index is None:
        raise RemoteContractError(f"device {result.device[:80]!r} cannot be read; expected card-N")
    consumed = result.consumed_memory()
    if is_whole or consumed is None:
        return ClaimedCard(index, None)
    return ClaimedCard(index, parse_count(consumed))


def _holder_of(claim: ResourceClaim) -> PodRef:
    meta = claim.metadata
    pod = next((each for each in claim.status.reserved_for if each.resource == "pods"), None)
    if pod is None:
        return PodRef(meta.uid, meta.namespace, meta.name, meta.creation_timestamp or "")
    return PodRef(pod.uid, meta.namespace, pod.name, meta.creation_timestamp or "")
