"""The pods that hold the prepared claims of this node: what each may use, for use per pod, over-use and reports.

With ``--pod-use`` the node's pods are watched. Without it a pod is known by what its claim said when it was prepared.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gcushare.claims_driver.allocation_results import assignment_of
from gcushare.claims_driver.prepared_claims import PreparedClaims
from gcushare.core.nodes import PodRef
from gcushare.core.units import MemoryUnit
from gcushare.node.pods import NO_SIZES, CardCounts
from gcushare.wire.dra.checkpoint import PreparedClaim
from gcushare.wire.dra.claims import PodWithClaims
from gcushare.wire.pods import deletion_time_s, is_finished, pod_ref


@dataclass(slots=True)
class ClaimHolder:
    """One pod and its claims: a ``PodWithCards``; a claim that no pod is known for has its own name here.

    ``units``: of each card. ``placed_s``: when its last claim was prepared.
    """

    ref: PodRef
    annotations: Mapping[str, str] = field(default_factory=dict)
    ends_at_s: float | None = None
    deletion_grace_s: float = 0.0
    claims: list[PreparedClaim] = field(default_factory=list)
    units: dict[int, int] = field(default_factory=dict)
    is_whole: bool = True
    placed_s: float = 0.0
    # Admission refuses a limit above the request: the scheduler shares no card's memory twice.
    limit: int = 0
    # A static pod has no claims, and the kubelet knows any other pod by its own uid.
    machine_uid: str = ""
    is_static: bool = False

    @property
    def taken_cards(self) -> tuple[int, ...]:
        return tuple(sorted(self.units))

    def overdue_since_s(self, longest_wait_s: float) -> float | None:
        return None if self.ends_at_s is None else self.ends_at_s - max(0.0, self.deletion_grace_s - longest_wait_s)

    def units_by_card(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """The units of each card; a claim of a whole card names them too, so ``sizes`` is not needed."""
        return self.units

    def entitled_units(self) -> Mapping[int, int]:
        """Nothing more: a claim is prepared before its pod's containers start."""
        return NO_SIZES


class ClaimPods:
    """The holders by uid: a ``NodePods``, and the handler of the watch of this node's pods."""

    def __init__(self, prepared: PreparedClaims, unit: MemoryUnit, node: str) -> None:
        self._prepared = prepared
        self._unit = unit
        self._node = node
        self._pods: dict[str, PodWithClaims] = {}
        self._entries: dict[str, ClaimHolder] = {}
        self._counted: Mapping[str, PreparedClaim] | None = None
        """The claims that ``_entries`` was computed from; None if a pod changed since."""

    def applied(self, obj: PodWithClaims) -> None:
        """Store a pod's newest state."""
        if is_finished(obj) or not obj.claim_names:
            self._pods.pop(obj.metadata.uid, None)
        else:
            self._pods[obj.metadata.uid] = obj
        self._counted = None

    def deleted(self, obj: PodWithClaims) -> None:
        """Remove a pod that is gone."""
        self._pods.pop(obj.metadata.uid, None)
        self._counted = None

    def retained(self, uids: frozenset[str], version: str) -> None:
        """Remove every pod but these: they are all that a full list has."""
        self._pods = {uid: pod for uid, pod in self._pods.items() if uid in uids}
        self._counted = None

    @property
    def entries(self) -> Mapping[str, ClaimHolder]:
        """The holders by uid; a claim that several pods share counts for each of them."""
        if self._counted is not self._prepared.claims:
            self._counted = self._prepared.claims
            self._entries = {}
            for claim in self._counted.values():
                users = [
                    ClaimHolder(
                        pod_ref(pod),
                        pod.metadata.annotations,
                        deletion_time_s(pod),
                        float(pod.metadata.deletion_grace_period_seconds or 0),
                    )
                    for pod in self._pods.values()
                    if pod.metadata.namespace == claim.namespace and claim.name in pod.claim_names
                ]
                unseen = PodRef(claim.pod_uid or claim.uid, claim.namespace, claim.pod_name or claim.name)
                for each in users or [ClaimHolder(unseen)]:
                    holder = self._entries.setdefault(each.ref.uid, each)
                    holder.claims.append(claim)
                    holder.placed_s = max(holder.placed_s, claim.prepared_s)
                    for grant in assignment_of(claim, self._unit, self._node).grants:
                        holder.units[grant.index] = holder.units.get(grant.index, 0) + grant.units
                        holder.is_whole = holder.is_whole and grant.whole
        return self._entries

    def held_units(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """Units per card that claims hold; one that several pods share counts once."""
        held: dict[int, int] = {}
        for claim in self._prepared.claims.values():
            for grant in assignment_of(claim, self._unit, self._node).grants:
                held[grant.index] = held.get(grant.index, 0) + grant.units
        return held

    def unrecorded_units(self, sizes: CardCounts = NO_SIZES) -> Mapping[int, int]:
        """None: every share is a claim's."""
        return NO_SIZES

    def promised(self) -> Mapping[int, int]:
        """None: what the scheduler keeps for a pod is its claim's allocation, which is read when it is prepared."""
        return NO_SIZES

    def promised_whole(self) -> tuple[int, ...]:
        """None, as for ``promised``."""
        return ()

    def doubt_of(self, index: int) -> str:
        """Why it is uncertain which pod may use how much of a card; no pod is evicted from it then."""
        users: dict[str, int] = {}
        for holder in self.entries.values():
            for claim in holder.claims:
                if any(device.index == index for device in claim.devices):
                    if holder.ref.uid not in self._pods:
                        return f"the pod of claim {claim.key} is not known"
                    users[claim.key] = users.get(claim.key, 0) + 1
        return next((f"claim {key} is shared by {count} pods" for key, count in users.items() if count > 1), "")
