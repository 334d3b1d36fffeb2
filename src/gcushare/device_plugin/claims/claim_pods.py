"""The pods that hold the prepared claims of this node: what each may use, for use per pod, over-use and reports.

A claim's users are the pods that it is reserved for; a pod that only names it cannot use it. With ``--pod-use`` the
node's pods are watched. Without it a pod is known by what its claim said when it was prepared.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gcushare.core.assignments import PodRef
from gcushare.core.units import MemoryUnit
from gcushare.device_plugin.claims.allocation_results import assignment_of
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims
from gcushare.node.pods import NO_SIZES, CardCounts, NodePods, PlainPod, SharedGrant, plain_pod
from gcushare.wire.dra.checkpoint import PreparedClaim
from gcushare.wire.dra.claims import PodWithClaims
from gcushare.wire.pods import is_finished, is_mirror


@dataclass(slots=True)
class ClaimHolder(PlainPod):
    """One pod and its claims; a claim that no pod is known for has its own name here.

    Nothing is kept for it beyond them: a claim is prepared before its pod's containers start, and admission refuses a
    limit above the request.
    """

    claims: list[PreparedClaim] = field(default_factory=list)


class ClaimPods(NodePods):
    """The holders by uid, and an observer of this node's pods.

    Every share is a claim's, which names its pods and is read when it is prepared: nothing is promised or doubtful.
    """

    def __init__(self, prepared: PreparedClaims, unit: MemoryUnit, node: str) -> None:
        self._prepared = prepared
        self._unit = unit
        self._node = node
        self._pods: dict[str, PodWithClaims] = {}
        self._entries: dict[str, ClaimHolder] = {}
        self._everyone: dict[str, PlainPod] = {}
        self._counted: Mapping[str, PreparedClaim] | None = None
        """The claims that these were computed from; None if a pod changed since."""
        self.changed = asyncio.Event()
        """Set by each change of a pod; the one who waits for it clears it."""

    def pod_applied(self, pod: PodWithClaims) -> None:
        """Store a pod's newest state."""
        if is_finished(pod):
            self._pods.pop(pod.metadata.uid, None)
        else:
            self._pods[pod.metadata.uid] = pod
        self._counted = None
        self.changed.set()

    def pod_deleted(self, pod: PodWithClaims) -> None:
        """Remove a pod that is gone."""
        self._pods.pop(pod.metadata.uid, None)
        self._counted = None

    def pods_retained(self, uids: frozenset[str]) -> None:
        """Remove every pod but these: they are all that a full list has."""
        self._pods = {uid: pod for uid, pod in self._pods.items() if uid in uids}
        self._counted = None

    @property
    def entries(self) -> Mapping[str, ClaimHolder]:
        """The holders by uid; a claim that several pods share counts for each of them."""
        self._count()
        return self._entries

    def _count(self) -> None:
        """Compute both again if a pod or a claim changed."""
        if self._counted is self._prepared.claims:
            return
        self._counted = self._prepared.claims
        self._entries = {}
        for claim in self._counted.values():
            for holder in self._holders(claim):
                holder.claims.append(claim)
                holder.placed_s = max(holder.placed_s, claim.prepared_s)
                for grant in assignment_of(claim, self._unit, self._node).grants:
                    holder.is_whole = grant.whole and (holder.is_whole or not holder.units)
                    holder.units[grant.index] = holder.units.get(grant.index, 0) + grant.units
        unknown = self._entries.keys() | {uid for uids in self.asking().values() for uid in uids}
        others = {uid: plain_pod(pod, PlainPod) for uid, pod in self._pods.items() if uid not in unknown}
        self._everyone = {**others, **self._entries}

    def _holders(self, claim: PreparedClaim) -> Iterator[ClaimHolder]:
        """A claim's users that are here; if none is, the first one as the claim names it. No static pod can be one."""
        here = [self._pods[each.uid] for each in claim.users if each.uid in self._pods]
        found = {
            pod.metadata.uid: plain_pod(pod, ClaimHolder) for pod in here if not is_mirror(pod.metadata.annotations)
        }
        if not found:
            uid, name = next(((each.uid, each.name) for each in claim.users), (claim.uid, claim.name))
            found = {uid: ClaimHolder(PodRef(uid, claim.namespace, name))}
        for uid, holder in found.items():
            yield self._entries.setdefault(uid, holder)

    @property
    def everyone(self) -> Mapping[str, PlainPod]:
        """The holders, and all other pods but those of ``asking``: what these may use is not known yet."""
        self._count()
        return self._everyone

    def asking(self) -> Mapping[str, frozenset[str]]:
        """The pods that name a prepared claim and are not known to be its users, by the claim's uid."""
        named: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        for uid, pod in self._pods.items():
            for name in pod.claim_names:
                named[pod.metadata.namespace, name].add(uid)
        found = {
            claim.uid: frozenset(named[claim.namespace, claim.name].difference(user.uid for user in claim.users))
            for claim in self._prepared.claims.values()
        }
        return {uid: pods for uid, pods in found.items() if pods}

    def shared(self) -> list[SharedGrant]:
        """The claims that several of the holders share."""
        return [
            (holders, {each.index: each.units for each in assignment_of(claim, self._unit, self._node).grants})
            for claim in self._prepared.claims.values()
            if len(holders := [uid for uid, each in self.entries.items() if claim in each.claims]) > 1
        ]

    def held_units(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """Units per card that claims hold; one that several pods share counts once."""
        held: dict[int, int] = {}
        for claim in self._prepared.claims.values():
            for grant in assignment_of(claim, self._unit, self._node).grants:
                held[grant.index] = held.get(grant.index, 0) + grant.units
        return held
