"""Sets of node names by pod: the nodes that a pod was last filtered with, or that filter last named for it."""

from __future__ import annotations

from collections import Counter, OrderedDict

MAX_PODS = 4096
MAX_NAMES = 100_000
"""Names in all sets that differ, at most ten megabytes. Up to 100 nodes all pods share one set: nothing is sampled."""


class LastFilteredNodes:
    """Sets of node names by pod uid. Equal sets are stored once. If there are too many, the oldest pod is dropped."""

    def __init__(self, *, max_pods: int = MAX_PODS, max_names: int = MAX_NAMES) -> None:
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
