"""The refused pods in memory: their states, and groups that fit or do not fit together, in the scheduler's order.

Pods of one shape that were asked about with the same nodes fit or do not fit together: a refusal of one of them proves
that none of their nodes has room at that moment. So everything about room is stored once per group.
"""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sized
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias

from gcushare.core.fit_index import Shape
from gcushare.core.nodes import NodeState
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest

MAX_PODS = 8192
"""Refused pods that are stored. Beyond it, the namespace with the most of them loses its oldest one."""
MAX_NAMES = 200_000
"""Names of nodes in all groups. Beyond it, the namespace whose groups have the most names loses its oldest group. A
group that was asked about with any node counts all nodes, because each of them may have room."""
_MIN_NAMES = 200
"""What a group counts at least: so there are at most 1,000 groups, and choosing among them takes some milliseconds."""

_MAX_STALE = 64

GroupKey: TypeAlias = tuple[Shape, frozenset[str] | None, frozenset[str], int]
Order: TypeAlias = tuple[int, str, int]
"""By priority, then age, then the first refusal."""


class PodState(enum.Enum):
    """What the waker does with a pod."""

    WAITING = "waiting"
    """It waits in a group for room on one of the group's nodes."""
    OFFERED = "offered"
    """kube-scheduler asked by itself and was offered nodes, so it is at work on the pod."""
    CHOSEN = "chosen"
    """There is room, which is kept for it on trial; the annotation is not written yet."""
    WOKEN = "woken"
    """The annotation is written; kube-scheduler has not asked about the pod since."""
    ANSWERED = "answered"
    """kube-scheduler asked about the woken pod and was offered nodes."""
    PAUSED = "paused"
    """A write, a binding or an answer failed: it waits for a moment, longer each time, before it waits for room."""
    UNREACHED = "unreached"
    """Like WAITING, but kube-scheduler asked about no pod while it was woken: the call may not have reached us."""


class PodEvent(enum.Enum):
    """What happens to a pod."""

    REFUSED = "filter found no room"
    OFFERED = "filter offered nodes"
    BIND_FAILED = "its binding failed"
    ADOPTED = "it waits, but kube-scheduler did not ask"
    CHOSEN = "it would fit, and the room has settled"
    WRITTEN = "the annotation is written"
    WRITE_FAILED = "the annotation could not be written"
    BINDING = "its binding is under way when the time to answer is over"
    UNANSWERED = "kube-scheduler did not bind it in time"
    UNANSWERED_IN_SILENCE = "the same, and kube-scheduler asked about no pod meanwhile"
    SCHEDULER_BACK = "kube-scheduler asks about pods again"
    PAUSE_OVER = "its pause is over"


GROUPED = frozenset({PodState.WAITING, PodState.UNREACHED})
"""The states in which a pod is in a group."""
ATTEMPTED = frozenset({PodState.CHOSEN, PodState.WOKEN, PodState.ANSWERED})
"""The states in which room is kept for a pod on trial."""

_S = PodState
TRANSITIONS: Mapping[PodEvent, Mapping[PodState, PodState]] = {
    PodEvent.REFUSED: dict.fromkeys(PodState, _S.WAITING),
    PodEvent.OFFERED: {state: _S.ANSWERED if state in ATTEMPTED else _S.OFFERED for state in PodState},
    PodEvent.BIND_FAILED: dict.fromkeys(PodState, _S.PAUSED),
    PodEvent.ADOPTED: {_S.OFFERED: _S.WAITING},
    PodEvent.CHOSEN: dict.fromkeys(GROUPED, _S.CHOSEN),
    PodEvent.WRITTEN: {_S.CHOSEN: _S.WOKEN, _S.ANSWERED: _S.ANSWERED},
    PodEvent.WRITE_FAILED: {_S.CHOSEN: _S.PAUSED, _S.ANSWERED: _S.PAUSED},
    PodEvent.BINDING: dict.fromkeys(ATTEMPTED, _S.OFFERED),
    PodEvent.UNANSWERED: {_S.CHOSEN: _S.WAITING, _S.WOKEN: _S.WAITING, _S.ANSWERED: _S.PAUSED},
    PodEvent.UNANSWERED_IN_SILENCE: {_S.CHOSEN: _S.UNREACHED, _S.WOKEN: _S.UNREACHED, _S.ANSWERED: _S.PAUSED},
    PodEvent.SCHEDULER_BACK: {_S.UNREACHED: _S.PAUSED},
    PodEvent.PAUSE_OVER: {_S.PAUSED: _S.WAITING},
}
"""The next state by event and state. An event without an entry for the state changes nothing."""


@dataclass(slots=True, eq=False)
class RefusedPod:
    """A pod that filter refused, or that was adopted."""

    request: SchedulingRequest
    order: Order
    state: PodState = PodState.WAITING
    group: RefusedGroup | None = None
    not_before_s: float = 0.0
    """The end of the pause while PAUSED."""
    failures: int = 0
    """Pauses in a row since the last refusal."""
    was_unreached: bool = False
    """Whether it was woken again after UNREACHED since the last refusal. That is done once."""

    @property
    def uid(self) -> str:
        return self.request.pod.uid

    @property
    def namespace(self) -> str:
        return self.request.pod.namespace


@dataclass(slots=True, eq=False)
class RefusedGroup:
    """Refused pods of one shape that the scheduler asked about with the same nodes.

    ``asked``: these nodes; None means any node. ``owner``: the namespace of the first pod, which its names count for.
    """

    shape: Shape
    asked: frozenset[str] | None
    owner: str = ""
    names: int = 0
    """How much the group counts towards ``MAX_NAMES``."""
    ignored: set[str] = field(default_factory=set)
    """Nodes that had room when the scheduler left such a pod alone: they count again once they were full."""
    pods: dict[str, RefusedPod] = field(default_factory=dict)
    released: set[str] = field(default_factory=set)
    """Nodes on which room is kept for one nominee less. They count as asked about: the scheduler may have left them out
    because of the nominee, and tries no other pod when a nominee is bound elsewhere."""
    room: set[str] = field(default_factory=set)
    """Nodes that can hold one of the pods now."""
    position: int = -1
    """The position in the change log at which ``room`` was true; -1 before the first evaluation."""
    since_s: float | None = None
    """Since when there is room."""
    offered_s: float = 0.0
    """When the scheduler was last offered a node for one of the pods: it is at work on them by itself."""
    _lines: dict[str, list[tuple[Order, str]]] = field(default_factory=dict)
    """A heap of uids by namespace; the entry of a pod that left stays until it comes to the front."""
    _entries: int = 0

    def add(self, pod: RefusedPod) -> None:
        """Add a pod, which leaves its group before; repeatable."""
        if pod.group is self:
            return
        if pod.group is not None:
            pod.group.remove(pod)
        pod.group = self
        self.pods[pod.uid] = pod
        self._push(pod)

    def remove(self, pod: RefusedPod) -> None:
        """Remove a pod that is in this group."""
        pod.group = None
        del self.pods[pod.uid]
        if self._entries > 2 * len(self.pods) + _MAX_STALE:
            self._lines.clear()
            self._entries = 0
            for each in self.pods.values():
                self._push(each)

    def on_refused(self, position: int) -> None:
        """Record that none of the nodes had room at this position of the change log."""
        self.room.clear()
        self.released.clear()
        self.position = position
        self.since_s = None

    def update_room(
        self, nodes: Mapping[str, NodeState], changed: Collection[str] | None, position: int, now_s: float
    ) -> int:
        """Evaluate the nodes that changed, or all if None; returns how many were evaluated."""
        names: Collection[str]
        if changed is None:
            names = list(nodes) if self.asked is None else self.asked | self.released
        elif self.asked is None:
            names = changed
        else:
            names = [name for name in changed if name in self.asked or name in self.released]
        request = self.shape.request
        for name in names:
            node = nodes.get(name)
            if node is None:
                self.released.discard(name)
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

    def first(self, deferred: Collection[str] = ()) -> RefusedPod | None:
        """The pod whose turn is first; pods of ``deferred`` namespaces come after all others. None if there is none."""
        heads = (pod for namespace in list(self._lines) if (pod := self._head(namespace)) is not None)
        return min(heads, key=lambda pod: (pod.namespace in deferred, pod.order), default=None)

    def _head(self, namespace: str) -> RefusedPod | None:
        line = self._lines[namespace]
        while line:
            if (pod := self.pods.get(line[0][1])) is not None:
                return pod
            heappop(line)
            self._entries -= 1
        del self._lines[namespace]
        return None

    def _push(self, pod: RefusedPod) -> None:
        heappush(self._lines.setdefault(pod.namespace, []), (pod.order, pod.uid))
        self._entries += 1


class RefusedPods:
    """All refused pods by uid, and their groups; both are bounded.

    If there are too many, the namespace that uses most loses: no author of pods pushes out the pods of another
    namespace. ``nodes``: all nodes, which are only counted.
    """

    def __init__(self, nodes: Sized = ()) -> None:
        self._nodes = nodes
        self.pods: OrderedDict[str, RefusedPod] = OrderedDict()
        self.groups: OrderedDict[GroupKey, RefusedGroup] = OrderedDict()
        self._pods_of: Counter[str] = Counter()
        self._names_of: Counter[str] = Counter()
        self._numbers = count()

    def remember(self, request: SchedulingRequest) -> RefusedPod:
        """Find a pod, or add it."""
        ref = request.pod
        pod = self.pods.get(ref.uid)
        if pod is None:
            pod = RefusedPod(request, (-ref.priority, ref.created, next(self._numbers)))
            if len(self.pods) >= MAX_PODS:
                namespace = self._pods_of.most_common(1)[0][0]
                self.forget(next(uid for uid, pod in self.pods.items() if pod.namespace == namespace))
            self.pods[ref.uid] = pod
            self._pods_of[ref.namespace] += 1
        self.pods.move_to_end(ref.uid)
        pod.request = request
        return pod

    def forget(self, uid: str) -> None:
        """Remove a pod; repeatable."""
        pod = self.pods.pop(uid, None)
        if pod is None:
            return
        self._pods_of[pod.namespace] -= 1
        if not self._pods_of[pod.namespace]:
            del self._pods_of[pod.namespace]
        if pod.group is not None:
            pod.group.remove(pod)

    def group(
        self,
        request: SchedulingRequest,
        asked: frozenset[str] | None,
        ignored: frozenset[str] = frozenset(),
        position: int = 0,
    ) -> RefusedGroup:
        """Find or make the group of the pods of a request's shape, asked about with these nodes.

        ``position``: of the change log, when the ``ignored`` nodes had room.
        """
        key = (request.shape, asked, ignored, position)
        group = self.groups.get(key)
        if group is None:
            names = max(_MIN_NAMES, len(self._nodes if asked is None else asked) + len(ignored))
            group = RefusedGroup(request.shape, asked, request.pod.namespace, names, set(ignored))
            self._names_of[group.owner] += names
            while self.groups and self._names_of.total() > MAX_NAMES:
                owner = self._names_of.most_common(1)[0][0]  # Of the new group alone: then the oldest of all goes.
                oldest = (key for key, group in self.groups.items() if group.owner == owner)
                self._drop_group(next(oldest, next(iter(self.groups))))
            self.groups[key] = group
        self.groups.move_to_end(key)
        return group

    def drop_empty_groups(self) -> None:
        """Remove groups without pods."""
        for key in [key for key, group in self.groups.items() if not group.pods]:
            self._drop_group(key)

    def find_resumed(self, now_s: float) -> list[RefusedPod]:
        """The pods whose pause is over."""
        return [pod for pod in self.pods.values() if pod.state is PodState.PAUSED and now_s >= pod.not_before_s]

    def _drop_group(self, key: GroupKey) -> None:
        group = self.groups.pop(key)
        self._names_of[group.owner] -= group.names
        if not self._names_of[group.owner]:
            del self._names_of[group.owner]
        for uid in list(group.pods):
            self.forget(uid)
