"""Which nodes kube-scheduler asked about when a pod was last refused: those it keeps out itself are not among them."""

from __future__ import annotations

from collections import Counter, OrderedDict

MAX_PODS = 4096
MAX_NAMES = 100_000
"""Names kept in all, of sets that differ: at most ten megabytes. Most pods are asked about with the same nodes."""


class LastFilteredNodes:
    """The sets of names by pod uid; equal sets are kept once, and the pod noted longest ago makes room."""

    def __init__(self, *, most_pods: int = MAX_PODS, most_names: int = MAX_NAMES) -> None:
        self._most_pods = most_pods
        self._most_names = most_names
        self._of_pod: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._sets: dict[frozenset[str], frozenset[str]] = {}
        self._uses: Counter[frozenset[str]] = Counter()
        self._names = 0

    def note(self, uid: str, names: frozenset[str]) -> None:
        """Remember what was asked for a pod, instead of what was before; sets of too many names are not kept."""
        self.forget(uid)
        if len(names) > self._most_names:
            return
        shared = self._sets.setdefault(names, names)
        if not self._uses[shared]:
            self._names += len(shared)
        self._uses[shared] += 1
        self._of_pod[uid] = shared
        while len(self._of_pod) > self._most_pods or self._names > self._most_names:
            self.forget(next(iter(self._of_pod)))

    def get(self, uid: str) -> frozenset[str] | None:
        """The names; None where nothing is known of the pod. Equal sets are one object."""
        return self._of_pod.get(uid)

    def forget(self, uid: str) -> None:
        """The pod waits no more; repeatable."""
        names = self._of_pod.pop(uid, None)
        if names is None:
            return
        self._uses[names] -= 1
        if not self._uses[names]:
            del self._uses[names], self._sets[names]
            self._names -= len(names)
