"""The kubelet's own list of its pods: which wait, which are active, which are over."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gcushare.core.errors import Refused
from gcushare_playground.amounts import effective_requests, is_extended, whole_amounts
from gcushare_playground.kubelet.podspec import Pod


class Stage(enum.Enum):
    """Where a pod stands on this node."""

    WAITING = "waiting"
    ACTIVE = "active"
    TERMINATING = "terminating"
    OVER = "over"


@dataclass(slots=True)
class TrackedPod:
    """A pod and its stage. ``requests`` is what it counts for when others are admitted."""

    pod: Pod
    stage: Stage
    requests: dict[str, int]
    pod_ip: str
    is_gone: bool = False
    """Whether its object is deleted from the API server."""
    is_removing: bool = False
    """Whether its removal is under way; it is ordered once, however often the object changes meanwhile."""


class NodeFull(Refused):
    """A pod does not fit the node's allocatable; ``reason`` and ``message`` are for its status."""

    def __init__(self, resource: str, requested: int, used: int, capacity: int) -> None:
        super().__init__(
            f"Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
        )
        self.reason = f"OutOf{resource}"
        self.message = str(self)


class PodBook:
    """Pods by uid. Only the kubelet's event loop touches it."""

    def __init__(self) -> None:
        self.pods: dict[str, TrackedPod] = {}

    def track(self, pod: Pod, stage: Stage, *, pod_ip: str) -> TrackedPod:
        tracked = TrackedPod(pod, stage, {**effective_requests(pod.raw["spec"]), "pods": 1}, pod_ip)
        self.pods[pod.uid] = tracked
        return tracked

    def prune(self) -> None:
        """Forget pods that are over and whose objects are gone."""
        over = [uid for uid, tracked in self.pods.items() if tracked.is_gone and tracked.stage is Stage.OVER]
        for uid in over:
            del self.pods[uid]

    def active_uids(self) -> set[str]:
        """Return pods whose containers may exist: admitted, being admitted, or still terminating."""
        return {uid for uid, tracked in self.pods.items() if tracked.stage in (Stage.ACTIVE, Stage.TERMINATING)}

    def active_pods(self) -> list[Pod]:
        return [self.pods[uid].pod for uid in sorted(self.active_uids())]

    def waiting_pods(self) -> list[Pod]:
        return [tracked.pod for tracked in self.pods.values() if tracked.stage is Stage.WAITING]

    def find(self, namespace: str, name: str) -> TrackedPod | None:
        """Return the pod of that name; the latest, where an older one of the same name is still terminating."""
        found = [item for item in self.pods.values() if (item.pod.namespace, item.pod.name) == (namespace, name)]
        return found[-1] if found else None

    def check_fit(self, uid: str, allocatable: dict[str, str], granted: dict[str, int]) -> None:
        """Check one pod against what the node has left.

        Args:
            uid: the pod, tracked already.
            allocatable: the Node's, as last published.
            granted: ids held per plugin resource; allocatable counts as at least that, so that pods which hold their
                devices pass while their plugin is away.

        Raises:
            NodeFull: something is short. Extended resources that the Node does not have are not checked.
        """
        limits = whole_amounts(allocatable)
        for resource, count in granted.items():
            limits[resource] = max(limits.get(resource, 0), count)
        mine = self.pods[uid].requests
        others = [self.pods[other].requests for other in self.active_uids() if other != uid]
        for resource, amount in sorted(mine.items()):
            if amount == 0 or (resource not in limits and is_extended(resource)):
                continue
            used = sum(requests.get(resource, 0) for requests in others)
            limit = limits.get(resource, 0)
            if used + amount > limit:
                raise NodeFull(resource, amount, used, limit)
