"""The allocated claims of a cluster by the pod that they count under, as assignments of the ledger.

An assignment belongs to the first pod that a claim is reserved for, and has all claims of that pod. A claim that
several pods share counts once, under that pod; what the others share can be asked for. A claim that no pod is reserved
for is still taken from its card: it counts under its own name and uid until it is deallocated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Set
from dataclasses import dataclass, replace

import msgspec

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.errors import RemoteContractError
from gcushare.core.nodes import NodeState
from gcushare.core.quantities import parse_count
from gcushare.core.requests import PodRequest
from gcushare.core.units import parse_memory_unit
from gcushare.vendors.vendor import Vendor
from gcushare.wire.dra.claim_names import parse_device_name, unit_bytes
from gcushare.wire.dra.claims import (
    AllocationResult,
    AskedOfClaim,
    ResourceClaim,
    add_up_asked,
    asked_of_claim,
    claimed_grants,
    claimed_request,
    named_claims,
)
from gcushare.wire.objects import Pod

_MAX_NOTED = 64 * 1024
"""Bytes of a pod as JSON. In memory it may have fifteen times as many, and an object may have 1.5 MB."""
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ClaimHolding:
    """The cards that one allocated claim takes on a node, the pod that it counts under, and those that share it.

    ``cards`` are indexes, each with the bytes that the claim takes of the card; None means all of them.
    """

    uid: str
    holder: PodRef
    node: str
    cards: tuple[tuple[int, int | None], ...]
    sharers: tuple[PodRef, ...] = ()


def _read_holding(claim: ResourceClaim, vendor: Vendor) -> ClaimHolding | None:
    """Read what a claim takes of this vendor's cards; None if it is not allocated any.

    Raises:
        RemoteContractError: a device or an amount cannot be read, or the devices are on several nodes.
    """
    # The scheduler counts a device as free if an administrator only inspects it.
    results = [each for each in claim.results_of(vendor.claims.driver) if not each.admin_access]
    if not results:
        return None
    nodes = {each.pool for each in results}
    if len(nodes) > 1:
        raise RemoteContractError(f"the claim has devices of several nodes: {', '.join(sorted(nodes))}")
    whole_class = vendor.claims.whole_class
    cards = tuple(_read_card(each, is_whole=claim.class_of(each) == whole_class) for each in results)
    meta = claim.metadata
    users = {each.uid: each.name for each in claim.status.reserved_for if each.resource == "pods"}
    created, names = meta.creation_timestamp or "", users or {meta.uid: meta.name}
    holder, *sharers = (PodRef(uid, meta.namespace, name, created) for uid, name in names.items())
    return ClaimHolding(meta.uid, holder, nodes.pop(), cards, tuple(sharers))


def _read_card(result: AllocationResult, *, is_whole: bool) -> tuple[int, int | None]:
    index = parse_device_name(result.device)
    if index is None:
        raise RemoteContractError(f"device {result.device[:80]!r} cannot be read; expected card-N")
    consumed = result.consumed_memory()
    return index, None if is_whole or consumed is None else parse_count(consumed)


class ClaimHolders:
    """One vendor's claims. Every change returns the holders' uids whose assignment may differ now.

    ``find_node`` answers with a node of the ledger: its unit and its cards' sizes turn bytes into units. Until a node
    is known the vendor's default unit is used, so ask again with ``on_node`` once it is.
    """

    def __init__(self, vendor: Vendor, find_node: Callable[[str], NodeState | None]) -> None:
        self._vendor = vendor
        self._find_node = find_node
        self.unit = parse_memory_unit(vendor.default_unit)
        """The unit of the nodes that serve claims."""
        self._claims: dict[str, ClaimHolding] = {}
        self._claims_of: defaultdict[str, dict[str, ClaimHolding]] = defaultdict(dict)
        self._shared_by: defaultdict[str, dict[str, ClaimHolding]] = defaultdict(dict)
        """By uid of a pod, the claims that it shares and that count under another."""
        self._asking: dict[tuple[str, str], tuple[str, AskedOfClaim]] = {}
        """By namespace and name, the uid of every claim for our cards and what it asks for, allocated or not."""
        self._key_of: dict[str, tuple[str, str]] = {}
        """By uid, the namespace and name of every claim that holds or asks for our cards."""
        self._naming: dict[tuple[str, str], dict[str, Pod]] = {}
        self._named_by: dict[str, list[tuple[str, str]]] = {}
        """By uid of a pod that was noted, the claims that it names."""
        self.problems: dict[str, str] = {}
        """Claims that cannot be read, by uid, and why."""

    def knows(self, claim: ResourceClaim) -> bool:
        """Whether it is known that this claim asks for cards of ours, and for which."""
        key = claim.metadata.namespace, claim.metadata.name
        return self._asking.get(key) == (claim.metadata.uid, asked_of_claim(claim.spec, self._vendor))

    def update(self, claim: ResourceClaim) -> frozenset[str]:
        """Use a claim's newest state."""
        uid = claim.metadata.uid
        self.problems.pop(uid, None)
        key = claim.metadata.namespace, claim.metadata.name
        if (asked := asked_of_claim(claim.spec, self._vendor)) is not None:
            self._key_of[uid], self._asking[key] = key, (uid, asked)
        elif claim.results_of(self._vendor.claims.driver):
            self._key_of[uid] = key
        try:
            holding = _read_holding(claim, self._vendor)
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
        for sharer in holding.sharers:
            self._shared_by[sharer.uid][uid] = holding
        return changed | {holding.holder.uid}

    def remove(self, uid: str) -> frozenset[str]:
        """Forget a claim that is gone."""
        self.problems.pop(uid, None)
        key = self._key_of.pop(uid, ("", ""))
        if self._asking.get(key, ("",))[0] == uid:
            del self._asking[key]
        return self._drop(uid)

    @property
    def uids(self) -> set[str]:
        """The claims that hold or ask for cards of ours, or did."""
        return set(self._key_of)

    def on_node(self, name: str) -> frozenset[str]:
        """The holders on a node whose unit or cards changed."""
        return frozenset(each.holder.uid for each in self._claims.values() if each.node == name)

    def note_pod(self, pod: Pod) -> None:
        """Remember a pod's newest state if its request may stand in claims of its author alone.

        One that is very large is not remembered: it is known what it asks for only if its claims came before it.
        """
        uid = pod.metadata.uid
        self.forget_pod(uid)
        keys = [(pod.metadata.namespace, name) for name in named_claims(pod)]
        if not keys or claimed_request(pod, self._vendor) is not None or len(_encode(pod)) > _MAX_NOTED:
            return
        for key in keys:
            self._naming.setdefault(key, {})[uid] = pod
        self._named_by[uid] = keys

    def forget_pod(self, uid: str) -> None:
        """Forget a pod; repeatable."""
        for key in self._named_by.pop(uid, ()):
            del self._naming[key][uid]
            if not self._naming[key]:
                del self._naming[key]

    @property
    def noted_pods(self) -> Set[str]:
        """The uids of the pods that were noted."""
        return self._named_by.keys()

    @property
    def noted(self) -> list[Pod]:
        """The newest states of the pods that were noted."""
        return list({uid: pod for pods in self._naming.values() for uid, pod in pods.items()}.values())

    def pods_naming(self, uid: str) -> list[Pod]:
        """The pods that were noted and name this claim; none for a claim that has nothing of ours."""
        return list(self._naming.get(self._key_of.get(uid, ("", "")), {}).values())

    def request_of(self, pod: Pod) -> PodRequest | None:
        """What a pod asks for by claims, by a template of ours or its author's own; None for nothing of ours.

        Of a pod without a node, claims that are allocated are left out: it can run only there, and needs no card for
        them.
        """
        if (claimed := claimed_request(pod, self._vendor)) is not None:
            return claimed
        keys = ((pod.metadata.namespace, name) for name in named_claims(pod))
        asking = (self._asking[key] for key in keys if key in self._asking)
        return add_up_asked((asked for uid, asked in asking if pod.is_bound or uid not in self._claims), self.unit)

    def holds(self, uid: str) -> bool:
        """Whether claims count under this uid."""
        return uid in self._claims_of

    def names(self, uid: str) -> bool:
        """Whether allocated claims are reserved for this pod."""
        return uid in self._claims_of or uid in self._shared_by

    def find(self, uid: str) -> Assignment | None:
        """What the claims under this uid hold; None if there are none."""
        holdings = list(self._claims_of.get(uid, {}).values())
        if not holdings:
            return None
        sharers = tuple(dict.fromkeys(pod for each in holdings for pod in each.sharers))
        return replace(self._assign(holdings[0].holder, holdings), sharers=sharers)

    def find_shared(self, uid: str) -> Assignment | None:
        """What a pod shares of claims that count under other pods; None if it shares none."""
        holdings = list(self._shared_by.get(uid, {}).values())
        sharers = (pod for each in holdings for pod in each.sharers if pod.uid == uid)
        return self._assign(next(sharers), holdings) if holdings else None

    def find_sharer(self, namespace: str, name: str) -> Assignment | None:
        """The same for the pod of this name."""
        for uid, holdings in self._shared_by.items():
            sharers = (pod for each in holdings.values() for pod in each.sharers if pod.uid == uid)
            if any((pod.namespace, pod.name) == (namespace, name) for pod in sharers):
                return self.find_shared(uid)
        return None

    def pods_sharing_with(self, uid: str) -> tuple[PodRef, ...]:
        """The other pods of the claims that a pod holds or shares, by name."""
        holdings = (*self._claims_of.get(uid, {}).values(), *self._shared_by.get(uid, {}).values())
        pods = {pod for each in holdings for pod in (each.holder, *each.sharers) if pod.uid != uid}
        return tuple(sorted(pods, key=str))

    def _assign(self, pod: PodRef, holdings: list[ClaimHolding]) -> Assignment:
        # A pod runs on one node; claims of another node would be an error of the scheduler, and count for nothing.
        first = holdings[0]
        node = self._find_node(first.node)
        unit = node.unit if node is not None and node.unit is not None else parse_memory_unit(self._vendor.default_unit)
        sizes = {} if node is None else {card.index: card.total * unit_bytes(unit) for card in node.cards.values()}
        cards = (card for each in holdings if each.node == first.node for card in each.cards)
        held = ((i, sizes.get(i, 0) if taken is None else taken, taken is None) for i, taken in cards)
        return Assignment(pod, first.node, claimed_grants(held, unit), assigned=True)

    def _drop(self, uid: str) -> frozenset[str]:
        holding = self._claims.pop(uid, None)
        if holding is None:
            return frozenset()
        holder = holding.holder.uid
        users = ((holder, self._claims_of), *((each.uid, self._shared_by) for each in holding.sharers))
        for pod, claims in users:
            del claims[pod][uid]
            if not claims[pod]:
                del claims[pod]
        return frozenset({holder})
