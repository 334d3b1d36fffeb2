"""Deleted pods whose containers may still run, and whose cards are therefore not free yet.

A forced deletion removes a pod's object at once, whatever its containers do. The kubelet does not say when these end:
podresources drops such a pod as soon as the kubelet knows of the deletion, the checkpoint when the next pod with
devices is admitted, both while containers still run. So a card is free when the pod's grace period is over, counted
from the moment in which the kubelet does not show the pod any more. The pod's author wrote that period, so it counts up
to a limit. If the machine's processes can be read, they decide instead.

The next plugin reads on the Node which cards were closed, and keeps them so for the rest of the time.

Source: the kubelet's device manager, podresources and pod workers, 1.20 to 1.36.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from gcushare.core.assignments import PodRef
from gcushare.core.cards import SERVES_MEMORY, InventoryCard

KILL_MARGIN_S = 10.0
"""Added to a pod's grace period: the runtime kills the containers and waits for their processes to end."""


@dataclass(slots=True)
class ForceDeletedPod:
    """One such pod. ``until_s``: when its cards open at the latest, by the wall clock; 0 if that is not known.

    ``is_restored``: only its name is known, so that none of the machine's processes is known to be its own.
    """

    ref: PodRef
    cards: frozenset[int]
    is_whole: bool
    grace_s: float
    since_s: float | None = None
    """Since when the kubelet does not show it; None while it does, or before the first read."""
    until_s: int = 0
    is_restored: bool = False


class ForceDeletedPods:
    """All such pods of one node. ``longest_wait_s`` limits their grace periods."""

    def __init__(self, longest_wait_s: float) -> None:
        self._longest_wait_s = longest_wait_s
        self._pods: dict[str, ForceDeletedPod] = {}
        self.has_former = False
        """Whether it is known what the plugin before had closed."""

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(self._pods)

    @property
    def pods(self) -> tuple[ForceDeletedPod, ...]:
        """The pods, in no particular order."""
        return tuple(self._pods.values())

    def add(self, ref: PodRef, cards: Collection[int], *, is_whole: bool, grace_s: float) -> None:
        """Keep the cards of a deleted pod, whose author gives its containers ``grace_s`` to end."""
        waited_s = min(max(0.0, grace_s), self._longest_wait_s)
        self._pods[ref.uid] = ForceDeletedPod(ref, frozenset(cards), is_whole, waited_s)

    def restore(self, cards: Iterable[InventoryCard], wall_s: float) -> None:
        """Keep closed what the plugin before had closed, as its inventory says: until then, or as long as may be."""
        self.has_former = True
        for card in cards:
            for closure in card.closures:
                if closure.until and closure.until <= wall_s:
                    continue
                namespace, _, name = closure.pod.rpartition("/")
                ref, is_whole = PodRef(f"{closure.use}:{closure.pod}", namespace, name), closure.use == SERVES_MEMORY
                others = self._pods[ref.uid].cards if ref.uid in self._pods else ()
                left_s = closure.until - wall_s - KILL_MARGIN_S if closure.until else self._longest_wait_s
                self.add(ref, {card.index, *others}, is_whole=is_whole, grace_s=left_s)
                self._pods[ref.uid].is_restored = True

    def discard(self, uid: str) -> None:
        """Free the cards of a pod that has ended or is here again."""
        self._pods.pop(uid, None)

    def is_named(self, name: str) -> bool:
        """Whether one of the pods had this ``namespace/name``."""
        return any(str(gone.ref) == name for gone in self._pods.values())

    def cards(self, *, whole: bool) -> frozenset[int]:
        """The cards whose memory, or whose whole device, their containers may still use."""
        return frozenset(index for gone in self._pods.values() if gone.is_whole == whole for index in gone.cards)

    def users_of(self, card_index: int, *, whole: bool) -> list[str]:
        """The names of the pods on a card, for messages."""
        return [str(gone.ref) for gone in self._pods.values() if gone.is_whole == whole and card_index in gone.cards]

    def end(
        self, shown: Collection[str], now_s: float, *, wall_s: float = 0.0, running: Collection[str] | None = None
    ) -> list[PodRef]:
        """Remove and return the pods whose containers have ended, or must have been killed by now.

        ``shown`` are the pods that the kubelet has, by uid or name. Leave out those of a checkpoint: it is not updated
        when a pod ends. ``running`` are the uids of the pods that have processes on this machine, None if that is not
        known. A pod without processes counts as ended only after ``KILL_MARGIN_S``: the kubelet may just be starting
        its containers.
        """
        killed: list[PodRef] = []
        for uid, gone in list(self._pods.items()):
            processes = None if gone.is_restored else running
            if uid in shown or str(gone.ref) in shown:
                gone.since_s, gone.until_s = None, 0
                continue
            if gone.since_s is None:
                gone.since_s = now_s
            is_running = processes is not None and uid in processes
            wait_s = (KILL_MARGIN_S if processes is not None else gone.grace_s + KILL_MARGIN_S) + gone.since_s - now_s
            if is_running:
                gone.until_s = 0
            elif wait_s < 0:
                del self._pods[uid]
                killed.append(gone.ref)
            elif not gone.until_s:
                gone.until_s = math.ceil(wall_s + wait_s)
        return killed
