"""Pods that were read ahead of the watch, and which of the watch's words are older than what was read.

A GET returns the newest state; lists and events may be on their way longer than the answer to it. Whatever they say of
such a pod counts only from the version on that was read: until then an event, a page or the end of a list is the past.
"""

from __future__ import annotations

from dataclasses import dataclass

from gcushare.core.nodes import PodRef
from gcushare.kube.resource_versions import is_at_least
from gcushare.wire.objects import Pod
from gcushare.wire.pods import pod_ref


@dataclass(slots=True, eq=False)
class ReadAhead:
    """A pod as it was read at ``version``; ``watched`` is the version that the watch last brought of it since."""

    pod: PodRef
    version: str
    since_s: float
    watched: str | None = None


class ReadsAhead:
    """The pods that the watch has not caught up with, by uid.

    Versions that cannot be compared are taken for older until they are equal: what was read stays, which may keep room
    closed for a while and gives none away; reading again ends that (see ``due``).
    """

    def __init__(self) -> None:
        self._pods: dict[str, ReadAhead] = {}

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(self._pods)

    def note(self, pod: Pod, now_s: float) -> None:
        """A pod was read; it replaces what was read before, for a read that began later is the newer one."""
        meta = pod.metadata
        watched = earlier.watched if (earlier := self._pods.get(meta.uid)) is not None else None
        self._pods[meta.uid] = ReadAhead(pod_ref(pod), meta.resource_version, now_s, watched)

    def hides(self, pod: Pod) -> bool:
        """Whether what the watch says of a pod is older than what was read; where it is not, the watch is ahead now."""
        read = self._pods.get(pod.metadata.uid)
        if read is None:
            return False
        if is_at_least(pod.metadata.resource_version, read.version):
            del self._pods[pod.metadata.uid]
            return False
        read.watched = pod.metadata.resource_version
        return True

    def outlives(self, uid: str, list_version: str) -> bool:
        """Whether a pod that a list lacks was read at a later version than the list's."""
        read = self._pods.get(uid)
        return read is not None and not is_at_least(list_version, read.version)

    def forget(self, uid: str) -> None:
        """The pod is gone; repeatable."""
        self._pods.pop(uid, None)

    def due(self, now_s: float, older_than_s: float) -> list[ReadAhead]:
        """The reads that the watch has not confirmed for so long."""
        return [read for read in self._pods.values() if now_s - read.since_s >= older_than_s]

    def holds(self, read: ReadAhead) -> bool:
        """Whether a read still stands: neither the watch nor another read came after it."""
        return self._pods.get(read.pod.uid) is read
