"""Small stores by pod: the nodes that filter answered with, pods by name, and reads newer than the watch."""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass

from gcushare.core.assignments import PodRef
from gcushare.kube.resources import is_at_least
from gcushare.wire.objects import Pod
from gcushare.wire.pods import pod_ref

MAX_FILTERED_PODS = 4096
MAX_FILTERED_NAMES = 100_000
"""Names in all sets that differ, at most ten megabytes. Up to 100 nodes all pods share one set: nothing is sampled."""


class LastFilteredNodes:
    """Sets of node names by pod uid. Equal sets are stored once. If there are too many, the oldest pod is dropped."""

    def __init__(self, *, max_pods: int = MAX_FILTERED_PODS, max_names: int = MAX_FILTERED_NAMES) -> None:
        self._max_pods = max_pods
        self._max_names = max_names
        self._of_pod: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._uses: Counter[frozenset[str]] = Counter()
        self._names = 0

    def record(self, uid: str, names: frozenset[str]) -> None:
        """Store the names of a pod in place of earlier ones. A set above the limit is not stored."""
        self.forget(uid)
        if len(names) > self._max_names:
            return
        shared = self._sets.setdefault(names, names)
        if not self._uses[shared]:
            self._names += len(shared)
        self._uses[shared] += 1
        self._of_pod[uid] = shared
        while len(self._of_pod) > self._max_pods or self._names > self._max_names:
            self.forget(next(iter(self._of_pod)))

    def get(self, uid: str) -> frozenset[str] | None:
        """The pod's names; None if there are none. Equal sets are one object."""
        return self._of_pod.get(uid)

    def forget(self, uid: str) -> None:
        """Drop a pod that no longer waits; repeatable."""
        names = self._of_pod.pop(uid, None)
        if names is None:
            return
        self._uses[names] -= 1
        if not self._uses[names]:
            del self._uses[names], self._sets[names]
            self._names -= len(names)


class PodNames:
    """The known pods by namespace and name, for questions of people; all other code uses uids.

    With 50,000 pods it takes two megabytes, because its keys and values exist elsewhere too.
    """

    def __init__(self) -> None:
        self._of: defaultdict[str, dict[str, PodRef | tuple[PodRef, ...]]] = defaultdict(dict)
        """By namespace and name; a tuple if a pod and its successor share them."""

    def add(self, pod: PodRef) -> None:
        """Add a pod, or replace the one of its uid."""
        others = self._others(pod)
        self._of[pod.namespace][pod.name] = (*others, pod) if others else pod

    def forget(self, pod: PodRef) -> None:
        """Remove a pod; repeatable."""
        if others := self._others(pod):
            self._of[pod.namespace][pod.name] = others
        else:
            self._of[pod.namespace].pop(pod.name, None)
        if not self._of[pod.namespace]:
            del self._of[pod.namespace]

    def find(self, namespace: str, name: str) -> list[str]:
        """The uids of the pods of this name, the newest first."""
        return [pod.uid for pod in reversed(self._named(namespace, name))]

    def _others(self, pod: PodRef) -> tuple[PodRef, ...]:
        return tuple(each for each in self._named(pod.namespace, pod.name) if each.uid != pod.uid)

    def _named(self, namespace: str, name: str) -> tuple[PodRef, ...]:
        found = self._of[namespace].get(name, ()) if namespace in self._of else ()
        return found if isinstance(found, tuple) else (found,)


@dataclass(slots=True, eq=False)
class NewerRead:
    """A pod that was read at ``version``. ``watched``: the last version of it that the watch brought since."""

    pod: PodRef
    version: str
    since_s: float
    watched: str | None = None


class NewerReads:
    """The pods for which the watch is still behind a read, by uid: which events and lists are older than the read.

    A GET returns the newest state, and lists and events may arrive later than its answer. For such a pod an event, a
    page or the end of a list counts only from the version that was read.

    Versions that cannot be compared count as older until they are equal. The read then stays in force: it may keep room
    closed for a while, but never gives room away. Reading again ends that (see ``due``).
    """

    def __init__(self) -> None:
        self._pods: dict[str, NewerRead] = {}

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(self._pods)

    def record(self, pod: Pod, now_s: float) -> None:
        """Record a read. It replaces an earlier one of the pod, because a later read has the newer state."""
        meta = pod.metadata
        watched = earlier.watched if (earlier := self._pods.get(meta.uid)) is not None else None
        self._pods[meta.uid] = NewerRead(pod_ref(pod), meta.resource_version, now_s, watched)

    def hides(self, pod: Pod) -> bool:
        """Whether a pod from the watch is older than our read. If it is not, the read is dropped."""
        read = self._pods.get(pod.metadata.uid)
        if read is None:
            return False
        if is_at_least(pod.metadata.resource_version, read.version):
            del self._pods[pod.metadata.uid]
            return False
        read.watched = pod.metadata.resource_version
        return True

    def outlives(self, uid: str, list_version: str) -> bool:
        """Whether a pod that is missing in a list was read at a later version than the list's."""
        read = self._pods.get(uid)
        return read is not None and not is_at_least(list_version, read.version)

    def forget(self, uid: str) -> None:
        """Drop the read of a pod that is gone; repeatable."""
        self._pods.pop(uid, None)

    def due(self, now_s: float, older_than_s: float) -> list[NewerRead]:
        """The reads that the watch has not confirmed for so many seconds."""
        return [read for read in self._pods.values() if now_s - read.since_s >= older_than_s]

    def holds(self, read: NewerRead) -> bool:
        """Whether a read is still in force: neither the watch nor another read came after it."""
        return self._pods.get(read.pod.uid) is read
