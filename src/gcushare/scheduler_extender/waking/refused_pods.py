"""The refused pods in memory, in groups that fit or do not fit together.

Pods of one shape that were refused on the same nodes fit or do not fit together: a refusal of one of them proves that
none of these nodes had room. So the nodes with room are stored once per group.
"""

from __future__ import annotations

import math
from collections import Counter, OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import merge, nsmallest
from itertools import count
from typing import TypeAlias

from gcushare.core.fit_index import Shape
from gcushare.core.nodes import NodeState
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest

MAX_PODS = 8192
"""Refused pods that are stored. Beyond it, the namespace with the most of them loses its oldest one."""
MAX_GROUPS = 1000
"""Groups. Beyond it, the namespace that began the most of them loses its oldest one, with its pods."""
MAX_NAMES = 200_000
"""Names of nodes in all groups. Beyond it, a new group is for any node: its pods may be woken for a node that is not
for them, at most once for each time that a node has room."""

GroupKey: TypeAlias = tuple[Shape, frozenset[str] | None]


@dataclass(slots=True, eq=False)
class RefusedPod:
    """A pod that filter refused. ``order``: priority, then age, then the first refusal."""

    request: SchedulingRequest
    order: tuple[int, str, int]
    group: RefusedGroup
    woken_s: float = -math.inf
    """When it was last chosen. After that it waits for a node that had no room then."""
    not_before_s: float = -math.inf
    """When it may be chosen, if it could not be annotated before."""


@dataclass(slots=True, eq=False)
class RefusedGroup:
    """Refused pods of one shape by uid. ``asked``: the nodes that they were refused on; None means any.

    ``owner``: the namespace of its first pod.
    """

    shape: Shape
    asked: frozenset[str] | None
    owner: str
    pods: dict[str, RefusedPod] = field(default_factory=dict)
    room: dict[str, float] = field(default_factory=dict)
    """Nodes that can hold one of the pods now, with the moment since when they can, in the order of these moments."""
    position: int = 0
    """The position in the change log at which ``room`` was true."""

    def find_room(self, pod: RefusedPod, settled_s: float) -> Iterator[str]:
        """The nodes that have had room since ``settled_s``, but had none when the pod was last woken."""
        for name, since_s in reversed(self.room.items()):
            if since_s <= pod.woken_s:
                return
            if since_s <= settled_s:
                yield name

    def update_room(
        self,
        nodes: Mapping[str, NodeState],
        changed: Collection[str] | None,
        released: Collection[str],
        now_s: float,
    ) -> None:
        """Evaluate the nodes that changed, in this order, or all if None.

        ``released``: nodes that keep room for one nominee less. They count as asked about: kube-scheduler may have left
        them out because of the nominee, and tries no other pod when a nominee is bound elsewhere.
        """
        asked = nodes if self.asked is None else self.asked
        for name in sorted({*asked, *self.room, *released}) if changed is None else changed:
            if name not in asked and name not in self.room and name not in released:
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
        self.pods: OrderedDict[str, RefusedPod] = OrderedDict()
        self.groups: OrderedDict[GroupKey, RefusedGroup] = OrderedDict()
        self._pods_of: Counter[str] = Counter()
        self._names = 0
        self._numbers = count()

    def add(self, request: SchedulingRequest, asked: frozenset[str] | None, position: int) -> None:
        """Record a refusal on these nodes, at this position of the change log; it replaces an earlier one of the pod.

        ``asked``: None if the nodes are not known.
        """
        ref = request.pod
        known = self.pods.get(ref.uid)
        order = (-ref.priority, ref.created, next(self._numbers)) if known is None else known.order
        self.forget(ref.uid)
        if len(self.pods) >= MAX_PODS:
            most = self._pods_of.most_common(1)[0][0]
            self.forget(next(uid for uid, pod in self.pods.items() if pod.request.pod.namespace == most))
        group = self._find_group(request, asked)
        group.room.clear()
        group.position = position
        group.pods[ref.uid] = self.pods[ref.uid] = RefusedPod(request, order, group)
        self._pods_of[ref.namespace] += 1

    def forget(self, uid: str) -> None:
        """Remove a pod, and its group if that is empty now; repeatable."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        self._pods_of[pod.request.pod.namespace] -= 1
        if not self._pods_of[pod.request.pod.namespace]:
            del self._pods_of[pod.request.pod.namespace]
        del pod.group.pods[uid]
        if not pod.group.pods:
            self._names -= len(pod.group.asked or ())
            del self.groups[pod.group.shape, pod.group.asked]

    def find_next(
        self, most: int, settled_s: float, now_s: float, busy: Collection[str], last: Collection[str]
    ) -> Iterator[RefusedPod]:
        """The pods that a node has room for, in their order; ``most`` of a group.

        ``settled_s``: since when there must be room; ``busy``: pods to leave out, by uid; ``last``: namespaces whose
        pods come after all others.
        """

        def rank(pod: RefusedPod) -> tuple[bool, tuple[int, str, int]]:
            return pod.request.pod.namespace in last, pod.order

        lines = []
        for group in self.groups.values():
            newest_s = next((since_s for since_s in reversed(group.room.values()) if since_s <= settled_s), -math.inf)
            able = [
                pod
                for uid, pod in group.pods.items()
                if pod.woken_s < newest_s and pod.not_before_s <= now_s and uid not in busy
            ]
            if able:
                lines.append(nsmallest(most, able, rank) if len(able) > most else sorted(able, key=rank))
        return merge(*lines, key=rank)

    def _find_group(self, request: SchedulingRequest, asked: frozenset[str] | None) -> RefusedGroup:
        group = self.groups.get((request.shape, asked))
        if group is None and asked is not None and self._names + len(asked) > MAX_NAMES:
            asked = None
            group = self.groups.get((request.shape, asked))
        if group is None:
            if len(self.groups) >= MAX_GROUPS:
                owner = Counter(each.owner for each in self.groups.values()).most_common(1)[0][0]
                for uid in list(next(each for each in self.groups.values() if each.owner == owner).pods):
                    self.forget(uid)
            group = self.groups[request.shape, asked] = RefusedGroup(request.shape, asked, request.pod.namespace)
            self._names += len(asked or ())
        return group
