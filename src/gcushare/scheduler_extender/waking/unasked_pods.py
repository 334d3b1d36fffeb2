"""Find waiting pods that kube-scheduler did not ask this replica about, and adopt them.

Two kinds of pods need it:

- after a change of the leader: pods that the leader before refused;
- with kube-scheduler up to 1.26: pods whose call got an error, or reached no replica. Those versions try such a pod
  again only after an event.

A scheduler that is at work comes to its other pods by itself, so no pod is adopted while it asks about any. When a
replica is new, it cannot know whether the scheduler has just started and is about to ask. So while the scheduler comes
to adopted pods by itself, and for ``ADOPT_S`` after, none of them is woken, up to ``LONGEST_WAIT_S``: otherwise every
pod of a long queue would be written to right before its turn.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection

ADOPT_S = 5.0
"""How long this replica must be serving, or the scheduler silent, before pods are adopted."""

LONGEST_WAIT_S = 60.0
"""How long an adopted pod is left to the scheduler at most. Without a limit an author could hold all of them back by
changing one of many own pods every few seconds, because the scheduler then comes to that one."""


class Phase(enum.Enum):
    """How long this replica has served."""

    STANDBY = "standby"
    """Another replica serves."""
    NEW = "new"
    """This replica has served for less than ``ADOPT_S``."""
    SERVING = "serving"


class UnaskedPods:
    """The pods that the scheduler asked about lately, and those that were adopted because it did not."""

    def __init__(self) -> None:
        self.phase = Phase.STANDBY
        self.last_asked_s = -math.inf
        """When the scheduler last asked about any pod."""
        self._asked: set[str] = set()
        """Pods asked about since the last check."""
        self._waited: set[str] = set()
        """Pods that waited at the last check. The scheduler may not have heard yet of younger ones."""
        self._adopted: dict[str, float] = {}
        """Adopted pods that were not asked about since, with the moment of their adoption."""
        self._unprompted_s = -math.inf
        """When the scheduler last came by itself to an adopted pod, or to any pod while this replica was new."""
        self._next_check_s = 0.0

    def start(self, now_s: float) -> None:
        """Begin to serve."""
        self.phase = Phase.NEW
        self._asked = set()
        self._next_check_s = now_s + ADOPT_S

    def stop(self) -> None:
        """Serve no more, and forget all pods."""
        self.phase = Phase.STANDBY
        self._asked, self._adopted = set(), {}

    def on_asked(self, uid: str, now_s: float, *, is_woken: bool) -> None:
        """Record a call of the scheduler. ``is_woken``: whether this replica woke the pod."""
        self.last_asked_s = now_s
        self._asked.add(uid)
        if (self.phase is Phase.NEW or uid in self._adopted) and not is_woken:
            self._unprompted_s = now_s
        self._adopted.pop(uid, None)

    def adopt_due(self, waiting: Collection[str], is_followed: Callable[[str], bool], now_s: float) -> list[str]:
        """Adopt the waiting pods that the waker does not follow, if a check is due; returns their uids.

        In the order of ``waiting``, which is about the order in which they were created.
        """
        if now_s < self._next_check_s:
            return []
        is_new = self.phase is Phase.NEW
        adopted = []
        if is_new or not self._asked:
            known = self._asked | self._adopted.keys()
            adopted = [
                uid for uid in waiting if uid not in known and not is_followed(uid) and (is_new or uid in self._waited)
            ]
        self._adopted.update(dict.fromkeys(adopted, now_s))
        self.phase = Phase.SERVING
        self._asked, self._waited, self._next_check_s = set(), set(waiting), now_s + ADOPT_S
        return adopted

    def drop_gone(self, waiting: Collection[str]) -> None:
        """Forget adopted pods that no longer wait."""
        self._adopted = {uid: since_s for uid, since_s in self._adopted.items() if uid in waiting}

    def not_before_s(self, uid: str) -> float:
        """The moment before which an adopted pod must not be woken; minus infinity for other pods."""
        if (since_s := self._adopted.get(uid)) is None:
            return -math.inf
        return min(self._unprompted_s + ADOPT_S, since_s + LONGEST_WAIT_S)
