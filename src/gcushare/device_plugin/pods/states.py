"""The states of a pod on this node: what each means, and how it is computed.

No event advances a state. At every event the pod store computes the state of each pod from three inputs: the pod as the
watch has it, the kubelet's allocations, and the pending ones, which the kubelet does not show yet. A node has at most
some hundred pods, so computing all of them is simpler than tracking what changed, and cheap.

A pod that leaves the API server has no state. ``force_deleted`` keeps its cards while its containers may still run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gcushare.device_plugin.pods.allocations import PendingAllocation, PendingAllocations
from gcushare.device_plugin.pods.pod import PodEntry, PodState


def compute_states(entries: Mapping[str, PodEntry], pending: PendingAllocations) -> None:
    """Set ``held`` and ``state`` of each pod by uid. At most some hundred pods: no part is kept."""
    for allocation in pending.accepted:
        if (entry := entries.get(allocation.uid)) is not None:
            entry.shown.setdefault(allocation.container, allocation.counts)
    for entry in entries.values():
        entry.held = dict(entry.shown)
    misplaced = [each for each in pending if not _place(entries, each)]
    for entry in entries.values():
        entry.state = entry.find_state()
    # Misplaced are allocations for a pod that turned out to hold other cards. Until the kubelet shows which pod has
    # these, one waiting pod each, the youngest first, must not be served from what is kept for others.
    shares = [(each.whole, each.counts) for each in misplaced]
    waiting = [e for e in entries.values() if shares and e.promise and e.state is PodState.WAITING]
    for entry in sorted(waiting, key=lambda entry: entry.age, reverse=True):
        share = (entry.is_whole, entry.first_share)
        if share in shares:
            shares.remove(share)
            entry.state = PodState.DISPLACED


def _place(entries: Mapping[str, PodEntry], allocation: PendingAllocation) -> bool:
    """Count an allocation as held by the container that it was for; False if that is unknown or holds another."""
    entry = entries.get(allocation.uid)
    if entry is None or allocation.container in entry.held:
        return False
    entry.held[allocation.container] = allocation.counts
    return True


def exchange_promises(entries: Collection[PodEntry]) -> bool:
    """Give the cards kept for a pod that got others to the pod whose cards it got; True if any changed places.

    Only pods of equal requests and rules change places, so all of them still fit as planned. After a restart the
    records show several changes at once, and each may enable the next: the exchange is repeated until none is left.
    """
    waiting = sorted(
        (e for e in entries if e.state in (PodState.WAITING, PodState.DISPLACED)), key=lambda entry: entry.age
    )
    moved = sorted((e for e in entries if e.promise and e.state is PodState.SERVED), key=lambda entry: entry.age)
    is_changed = False
    while any(_change_places(each, waiting) for each in moved):
        is_changed = True
    return is_changed


def _change_places(moved: PodEntry, waiting: Iterable[PodEntry]) -> bool:
    """Exchange the promise of a pod that holds other cards with that of a waiting pod; False if there is none."""
    if set(moved.promise) == set(moved.taken_cards):
        return False
    for successor in waiting:
        if successor.rules == moved.rules and set(successor.promise) == set(moved.taken_cards):
            successor.promise, moved.promise = moved.promise, successor.promise
            return True
    return False
