"""The pods that filter refused, by what decides whether they would fit now, and in the scheduler's order.

Pods of one shape that were asked about with the same nodes fit or do not fit together: a refusal of one of them proves
that none of their nodes has room at that moment. So everything about room is kept once per such group.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TypeAlias

from gcushare.core.fit_index import Shape
from gcushare.core.nodes import NodeState
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest

MAX_PODS = 8192
MAX_NAMES = 200_000
"""Refused pods remembered, and names of nodes that they were asked about with; the oldest are forgotten."""

_MAX_STALE = 64

GroupKey: TypeAlias = tuple[Shape, frozenset[str] | None, frozenset[str], int]


@dataclass(slots=True, eq=False)
class RefusedPod:
    """A pod that waits; ``order``: by priority, then age, then the first refusal."""

    request: SchedulingRequest
    order: tuple[int, str, int]
    group: RefusedGroup | None = None
    not_before_s: float = 0.0
    """Not woken before this moment, after writes or bindings that failed."""
    failures: int = 0
    is_repeated: bool = False
    """Woken once more since, as the scheduler may not have reached us."""

    @property
    def uid(self) -> str:
        return self.request.pod.uid


@dataclass(slots=True, eq=False)
class RefusedGroup:
    """Refused pods of one shape that the scheduler asked about with the same nodes; ``asked`` None: any node."""

    shape: Shape
    asked: frozenset[str] | None
    ignored: set[str] = field(default_factory=set)
    """Nodes that had room when the scheduler left such a pod alone: no room for it before they were full again."""
    pods: dict[str, RefusedPod] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    """Nodes where room is kept for one nominee less: the scheduler may have left them out for its sum alone, and tries
    no other pod when a nominee is bound elsewhere. They count as asked about."""
    room: set[str] = field(default_factory=set)
    """Nodes asked about that can hold one of the pods now."""
    position: int = -1
    """Of the log of changes, up to where ``room`` is true; -1: not evaluated yet."""
    since_s: float | None = None
    """Since when there is room."""
    asked_s: float = 0.0
    """When the scheduler was last offered a node for one of the pods: it is at work on them by itself."""
    _line: list[tuple[tuple[int, str, int], str]] = field(default_factory=list)
    """A heap; a pod that left stays in it until it comes to the front."""

    def add(self, pod: RefusedPod) -> None:
        """Take a pod in; repeatable."""
        if pod.group is self:
            return
        if pod.group is not None:
            pod.group.remove(pod)
        pod.group = self
        self.pods[pod.uid] = pod
        heappush(self._line, (pod.order, pod.uid))

    def remove(self, pod: RefusedPod) -> None:
        """Let a pod go."""
        pod.group = None
        del self.pods[pod.uid]
        if len(self._line) > 2 * len(self.pods) + _MAX_STALE:
            self._line = [(each.order, each.uid) for each in self.pods.values()]
            heapify(self._line)

    def note_no_room(self, position: int) -> None:
        """Take in that none of the nodes had room at this position."""
        self.room.clear()
        self.released.clear()
        self.position = position
        self.since_s = None

    def look(self, nodes: Mapping[str, NodeState], changed: Collection[str] | None, position: int, now_s: float) -> int:
        """Follow the nodes that changed, None for all of them; returns how many were looked at."""
        names = self.names_among(nodes, changed)
        request = self.shape.request
        for name in names:
            node = nodes.get(name)
            if node is None or not node.known or not node.fits(request):
                self.room.discard(name)
                self.ignored.discard(name)
            elif name not in self.ignored:
                self.room.add(name)
        self.position = position
        if not self.room:
            self.since_s = None
        elif self.since_s is None:
            self.since_s = now_s
        return len(names)

    def names_among(self, nodes: Iterable[str], changed: Collection[str] | None) -> Collection[str]:
        """The group's nodes among those that changed; None for all of them."""
        if self.asked is None:
            return list(nodes) if changed is None else changed
        if changed is None:
            return self.asked | self.released
        return [name for name in changed if name in self.asked or name in self.released]

    def first(self) -> RefusedPod | None:
        """The pod whose turn is first; None where none is left."""
        while self._line:
            if (pod := self.pods.get(self._line[0][1])) is not None:
                return pod
            heappop(self._line)
        return None


@dataclass(slots=True, eq=False)
class Claim:
    """Room that is meant for a woken pod. ``ignored``: where else there was room then.

    ``is_offered``: whether the scheduler came for it, and was offered nodes.
    """

    pod: RefusedPod
    node: str
    asked: frozenset[str] | None
    ignored: frozenset[str]
    until_s: float
    is_offered: bool = False


class RefusedPods:
    """All refused pods by uid, and their groups; both are bounded."""

    def __init__(self) -> None:
        self.pods: OrderedDict[str, RefusedPod] = OrderedDict()
        self.groups: OrderedDict[GroupKey, RefusedGroup] = OrderedDict()
        self._names = 0
        self._numbers = count()

    def remember(self, request: SchedulingRequest) -> RefusedPod:
        """Find a pod, or take it in; who was not heard of for longest is forgotten for it where there are too many."""
        ref = request.pod
        pod = self.pods.get(ref.uid)
        if pod is None:
            order = (-ref.priority, ref.created, next(self._numbers))
            pod = self.pods[ref.uid] = RefusedPod(request, order)
            if len(self.pods) > MAX_PODS:
                self.forget(next(iter(self.pods)))
        self.pods.move_to_end(ref.uid)
        pod.request = request
        return pod

    def forget(self, uid: str) -> None:
        """Let a pod go; repeatable."""
        pod = self.pods.pop(uid, None)
        if pod is not None and pod.group is not None:
            pod.group.remove(pod)

    def group(
        self, shape: Shape, asked: frozenset[str] | None, ignored: frozenset[str] = frozenset(), position: int = 0
    ) -> RefusedGroup:
        """Find or make the group of the pods of one shape, asked about with these nodes.

        ``position``: of the log of changes, when the ``ignored`` nodes had room.
        """
        key = (shape, asked, ignored, position)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = RefusedGroup(shape, asked, set(ignored))
            self._names += len(asked or ()) + len(ignored)
            while self._names > MAX_NAMES and len(self.groups) > 1:
                self._drop_group(next(iter(self.groups)))
        self.groups.move_to_end(key)
        return group

    def drop_empty_groups(self) -> None:
        """Forget groups that have no pods any more."""
        for key in [key for key, group in self.groups.items() if not group.pods]:
            self._drop_group(key)

    def _drop_group(self, key: GroupKey) -> None:
        group = self.groups.pop(key)
        self._names -= len(key[1] or ()) + len(key[2])
        for uid in list(group.pods):
            self.forget(uid)
