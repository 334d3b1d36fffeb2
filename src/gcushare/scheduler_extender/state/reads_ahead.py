"""Pods that were read ahead of the watch: which events and lists are older than the read.

A GET returns the newest state, and lists and events may arrive later than its answer. For such a pod an event, a page
or the end of a list counts only from the version that was read.
"""

from __future__ import annotations

from dataclasses import dataclass

from gcushare.core.nodes import PodRef
from gcushare.kube.resources import is_at_least
from gcushare.wire.objects import Pod
from gcushare.wire.pods import pod_ref


@dataclass(slots=True, eq=False)
class ReadAhead:
    """A pod that was read at ``version``. ``watched``: the last version of it that the watch brought since."""

    pod: PodRef
    version: str
    since_s: float
    watched: str | None = None


class ReadsAhead:
    """The pods for which the watch is still behind a read, by uid.

    Versions that cannot be compared count as older until they are equal. The read then stays in force: it may keep room
    closed for a while, but never gives room away. Reading again ends that (see ``due``).
    """

    def __init__(self) -> None:
        self._pods: dict[str, ReadAhead] = {}

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(self._pods)

    def record(self, pod: Pod, now_s: float) -> None:
        """Record a read. It replaces an earlier one of the pod, because a later read has the newer state."""
        meta = pod.metadata
        watched = earlier.watched if (earlier := self._pods.get(meta.uid)) is not None else None
        self._pods[meta.uid] = ReadAhead(pod_ref(pod), meta.resource_version, now_s, watched)

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

    def due(self, now_s: float, older_than_s: float) -> list[ReadAhead]:
        """The reads that the watch has not confirmed for so many seconds."""
        return [read for read in self._pods.values() if now_s - read.since_s >= older_than_s]

    def holds(self, read: ReadAhead) -> bool:
        """Whether a read is still in force: neither the watch nor another read came after it."""
        return self._pods.get(read.pod.uid) is read
