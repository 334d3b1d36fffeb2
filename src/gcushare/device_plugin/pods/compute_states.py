"""Computes what every pod of the node holds, and its state (``states``), from the three inputs of the pod store."""

from __future__ import annotations

from collections.abc import Mapping

from gcushare.device_plugin.pods.pending_allocations import PendingAllocation, PendingAllocations
from gcushare.device_plugin.pods.pod import PodEntry, age
from gcushare.device_plugin.pods.states import PodState


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
    for entry in sorted(waiting, key=age, reverse=True):
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
