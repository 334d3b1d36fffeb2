"""The refused pods in memory, in groups that fit or do not fit together.

Pods of one shape that were refused on the same nodes fit or do not fit together: a refusal of one of them proves that
none of these nodes had room. So the nodes with room are stored once per group.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, islice
from typing import TypeAlias

from gcushare.core.fit_index import Shape
from gcushare.core.nodes import NodeState
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest

MAX_PODS = 8192
"""Refused pods that are stored. Beyond it, the namespace with the most of them loses its oldest ones."""
_FORGOTTEN_AT_ONCE = 64
MAX_GROUPS = 1000
"""Groups. Beyond it, the namespace that began the most of them loses its oldest one, with its pods."""
MAX_NAMES = 256
"""Nodes of one group. Pods that were refused on more are woken for any node, at most once for each time that it has
room: of so many, kube-scheduler mostly asks about a sample."""

GroupKey: TypeAlias = tuple[Shape, frozenset[str] | None]


@dataclass(slots=True, eq=False)
class RefusedPod:
    """A pod that filter refused. ``order``: priority, then age, then the first refusal."""

    request: SchedulingRequest
    order: tuple[int, str, int]
    group: RefusedGroup
    not_before_s: float
    woken_s: float = -math.inf
    """When it was last chosen. After that it waits for a node that had no room then."""


@dataclass(slots=True, eq=False)
class RefusedGroup:
    """Refused pods of one shape by uid. ``asked``: the nodes that they were refused on; None means any.

    ``owner``: the namespace of its first pod. ``position``: that in the change log at which ``room`` was true.
    """

    shape: Shape
    asked: frozenset[str] | None
    owner: str
    position: int
    pods: dict[str, RefusedPod] = field(default_factory=dict)
    room: dict[str, float] = field(default_factory=dict)
    """Nodes that can hold one of the pods now, with the moment since when they can, in the order of these moments."""

    def find_room(self, pod: RefusedPod, settled_s: float) -> Iterator[str]:
        """The nodes that have had room since ``settled_s``, but had none when the pod was last woken."""
        return (name for name, since_s in self.room.items() if pod.woken_s < since_s <= settled_s)

    def update_room(self, nodes: Mapping[str, NodeState], changed: Iterable[str], now_s: float) -> None:
        """Evaluate the nodes that changed, in this order."""
        for name in changed:
            if self.asked is not None and name not in self.asked:
                continue
            node = nodes.get(name)
            if node is None or not node.known or not node.fits(self.shape.request):
                self.room.pop(name, None)
            else:
                self.room.setdefault(name, now_s)


class RefusedPods:
    """All refused pods by uid, and their groups; both are bounded.

    If there are too many, the namespace that uses most loses: no author of pods pushes out the pods of another
    namespace.
    """

    def __init__(self) -> None:
        self.pods: dict[str, RefusedPod] = {}
        self.groups: dict[GroupKey, RefusedGroup] = {}
        self._numbers = count()

    def add(
        self,
        request: SchedulingRequest,
        asked: frozenset[str] | None,
        position: int,
        not_before_s: float = -math.inf,
    ) -> None:
        """Record a refusal on these nodes, at this position of the change log; it replaces an earlier one of the pod.

        ``asked``: None if the nodes are not known.
        """
        ref = request.pod
        known = self.pods.get(ref.uid)
        order = (-ref.priority, ref.created, next(self._numbers)) if known is None else known.order
        self.forget(ref.uid)
        if len(self.pods) >= MAX_PODS:
            most = _most_common(pod.request.pod.namespace for pod in self.pods.values())
            oldest = (uid for uid, pod in self.pods.items() if pod.request.pod.namespace == most)
            for uid in list(islice(oldest, _FORGOTTEN_AT_ONCE)):
                self.forget(uid)
        key = request.shape, None if asked is None or len(asked) > MAX_NAMES else asked
        if key not in self.groups and len(self.groups) >= MAX_GROUPS:
            owner = _most_common(group.owner for group in self.groups.values())
            for uid in list(next(group for group in self.groups.values() if group.owner == owner).pods):
                self.forget(uid)
        group = self.groups.setdefault(key, RefusedGroup(*key, ref.namespace, position))
        group.room.clear()
        group.position = position
        group.pods[ref.uid] = self.pods[ref.uid] = RefusedPod(request, order, group, not_before_s)

    def forget(self, uid: str) -> None:
        """Remove a pod, and its group if that is empty now; repeatable."""
        if (pod := self.pods.pop(uid, None)) is None:
            return
        del pod.group.pods[uid]
        if not pod.group.pods:
            del self.groups[pod.group.shape, pod.group.asked]


def _most_common(names: Iterable[str]) -> str:
    return Counter(names).most_common(1)[0][0]
