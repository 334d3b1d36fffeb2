"""Pods that went away without having been seen to end: their containers may run on, so their cards are not free yet.

A forced deletion removes a pod's object at once, whatever its containers do. The kubelet's own record does not tell
when these end: podresources forgets such a pod as soon as the kubelet has heard of the deletion, the checkpoint when
the next pod with devices is admitted, both while containers still run. So a card is free when the pod's own time to end
is over, counted from the moment in which the kubelet does not show the pod any more.

Source: the kubelet's device manager, podresources and pod workers, 1.20 to 1.36.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from gcushare.core.nodes import PodRef

KILL_MARGIN_S = 10.0
"""Beyond a pod's own time to end: the runtime kills, and waits for the processes to go."""


@dataclass(slots=True)
class _Gone:
    ref: PodRef
    cards: frozenset[int]
    is_whole: bool
    grace_s: float
    since_s: float | None = None
    """Since when the kubelet does not show it; None while it does, or where it was not asked yet."""


class GonePods:
    """The pods of one node that are gone and whose containers may still run."""

    def __init__(self) -> None:
        self._pods: dict[str, _Gone] = {}

    @property
    def uids(self) -> frozenset[str]:
        return frozenset(self._pods)

    def add(self, ref: PodRef, cards: Collection[int], *, is_whole: bool, grace_s: float) -> None:
        """Keep these cards for a pod that went away and whose containers may take ``grace_s`` to end."""
        self._pods[ref.uid] = _Gone(ref, frozenset(cards), is_whole, grace_s)

    def discard(self, uid: str) -> None:
        """Let a pod go that has ended, or is here again."""
        self._pods.pop(uid, None)

    def is_named(self, name: str) -> bool:
        """Whether one of them had this ``namespace/name``."""
        return any(str(gone.ref) == name for gone in self._pods.values())

    def cards(self, *, whole: bool) -> frozenset[int]:
        """The cards whose memory, or whose whole device, their containers may still use."""
        return frozenset(index for gone in self._pods.values() if gone.is_whole == whole for index in gone.cards)

    def users_of(self, card_index: int, *, whole: bool) -> list[str]:
        """Their names, for messages."""
        return [str(gone.ref) for gone in self._pods.values() if gone.is_whole == whole and card_index in gone.cards]

    def end(self, shown: Collection[str], now_s: float) -> list[PodRef]:
        """Let those go, and return them, whose containers must have been killed by now.

        ``shown`` are the pods, by uid or name, of which the kubelet says that it has them. A checkpoint says no such
        thing: it is not brought up to date when a pod goes.
        """
        killed: list[PodRef] = []
        for uid, gone in list(self._pods.items()):
            if uid in shown or str(gone.ref) in shown:
                gone.since_s = None
            elif gone.since_s is None:
                gone.since_s = now_s
            elif now_s - gone.since_s > gone.grace_s + KILL_MARGIN_S:
                del self._pods[uid]
                killed.append(gone.ref)
        return killed
