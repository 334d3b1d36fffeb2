"""The allocated claims of a cluster by the pod that they count under. Pure: readers and watches bring the claims."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection

from gcushare.core.errors import RemoteContractError
from gcushare.core.nodes import Assignment, NodeState
from gcushare.core.units import parse_memory_unit
from gcushare.vendors.vendor import Vendor
from gcushare.wire.dra.assignments import ClaimHolding, claims_assignment, read_holding
from gcushare.wire.dra.claims import ResourceClaim


class ClaimHolders:
    """One vendor's claims. Every change returns the holders' uids whose assignment may differ now.

    ``find_node`` answers with a node of the ledger: its unit and its cards' sizes turn bytes into units. Until a node
    is known the vendor's default unit is used, so ask again with ``on_node`` once it is.
    """

    def __init__(self, vendor: Vendor, find_node: Callable[[str], NodeState | None]) -> None:
        self._vendor = vendor
        self._find_node = find_node
        self._claims: dict[str, ClaimHolding] = {}
        self._claims_of: defaultdict[str, dict[str, ClaimHolding]] = defaultdict(dict)
        self.problems: dict[str, str] = {}
        """Claims that cannot be read, by uid, and why."""

    def update(self, claim: ResourceClaim) -> frozenset[str]:
        """Use a claim's newest state."""
        uid = claim.metadata.uid
        self.problems.pop(uid, None)
        try:
            holding = read_holding(claim, self._vendor)
        except RemoteContractError as error:
            self.problems[uid] = f"claim {claim.metadata.namespace}/{claim.metadata.name} cannot be read: {error}"
            holding = None
        if holding == self._claims.get(uid):
            return frozenset()
        changed = self._drop(uid)
        if holding is None:
            return changed
        self._claims[uid] = holding
        self._claims_of[holding.holder.uid][uid] = holding
        return changed | {holding.holder.uid}

    def remove(self, uid: str) -> frozenset[str]:
        """Forget a claim that is gone."""
        self.problems.pop(uid, None)
        return self._drop(uid)

    def retain(self, uids: Collection[str]) -> frozenset[str]:
        """Forget every claim but these."""
        gone = [uid for uid in (*self._claims, *self.problems) if uid not in uids]
        return frozenset(holder for uid in gone for holder in self.remove(uid))

    def on_node(self, name: str) -> frozenset[str]:
        """The holders on a node whose unit or cards changed."""
        return frozenset(each.holder.uid for each in self._claims.values() if each.node == name)

    def holds(self, uid: str) -> bool:
        """Whether claims count under this uid."""
        return uid in self._claims_of

    def find(self, uid: str) -> Assignment | None:
        """What the claims under this uid hold; None if there are none."""
        holdings = self._claims_of.get(uid)
        if not holdings:
            return None
        # A pod runs on one node; claims of another node would be an error of the scheduler, and count for nothing.
        node_name = next(iter(holdings.values())).node
        node = self._find_node(node_name)
        unit = node.unit if node is not None and node.unit is not None else parse_memory_unit(self._vendor.default_unit)
        sizes = {index: state.total for index, state in node.cards.items()} if node is not None else {}
        return claims_assignment((each for each in holdings.values() if each.node == node_name), unit, sizes)

    def _drop(self, uid: str) -> frozenset[str]:
        holding = self._claims.pop(uid, None)
        if holding is None:
            return frozenset()
        holder = holding.holder.uid
        del self._claims_of[holder][uid]
        if not self._claims_of[holder]:
            del self._claims_of[holder]
        return frozenset({holder})
