"""The states of a pod on this node: what each means, and how it is computed.

No event advances a state. At every event the pod store computes the state of each pod from three inputs: the pod as the
watch has it, the kubelet's allocations, and the pending ones, which the kubelet does not show yet. A node has at most
some hundred pods, so computing all of them is simpler than tracking what changed, and cheap.

A pod that leaves the API server has no state. ``force_deleted`` keeps its cards while its containers may still run.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # a pod has a state
    from gcushare.device_plugin.pods.allocations import PendingAllocation, PendingAllocations
    from gcushare.device_plugin.pods.pod import PodEntry


class PodState(Enum):
    """What a bound pod that asks for cards has of them."""

    UNPLACED = "It has no readable record, and holds nothing."
    WAITING = "Cards are kept for it, and it holds nothing."
    DISPLACED = "It waits, and units like those kept for it were given out; the kubelet does not show yet to which pod."
    UNVERIFIED = "Its record may say that it has its cards, and the kubelet was not read since."
    PARTLY_SERVED = "Some of its containers hold cards; the kubelet asks for the next one."
    UNCONFIRMED = "All its containers were served; the kubelet does not show all of that yet."
    SERVED = "All its containers hold cards, and the kubelet shows it."
    FORGOTTEN = "Its record says that it has its cards, and the kubelet knows of none: its checkpoint was lost."


NEEDS_CARDS = frozenset(
    {PodState.UNPLACED, PodState.WAITING, PodState.DISPLACED, PodState.PARTLY_SERVED, PodState.FORGOTTEN}
)
"""A call of the kubelet may be for a pod in one of these states; for a forgotten one only if for no other."""


def compute_states(entries: Mapping[str, PodEntry], pending: PendingAllocations) -> None:
    """Set ``held``, ``unconfirmed`` and ``state`` of each pod by uid. At most some hundred pods: no part is kept."""
    for entry in entries.values():
        entry.held, entry.unconfirmed = dict(entry.shown), set()
    for allocation in pending.accepted:
        _place(entries, allocation)
    misplaced = [each for each in pending if not _place(entries, each, is_confirmed=False)]
    for entry in entries.values():
        entry.state = entry.find_state()
    # Misplaced are allocations for a pod that turned out to hold other cards. Until the kubelet shows which pod has
    # these, one waiting pod each, the youngest first, must not be served from what is kept for others.
    shares = [(each.whole, each.counts) for each in misplaced]
    waiting = [entry for entry in entries.values() if shares and entry.state is PodState.WAITING]
    for entry in sorted(waiting, key=lambda entry: entry.age, reverse=True):
        share = (entry.is_whole, entry.first_share)
        if share in shares:
            shares.remove(share)
            entry.state = PodState.DISPLACED


def _place(entries: Mapping[str, PodEntry], allocation: PendingAllocation, *, is_confirmed: bool = True) -> bool:
    """Count an allocation as held by the container that it was for; False if that is unknown or holds another."""
    entry = entries.get(allocation.uid)
    if entry is None or allocation.container in entry.held:
        return False
    entry.held[allocation.container] = allocation.counts
    if not is_confirmed:
        entry.unconfirmed.add(allocation.container)
    return True
