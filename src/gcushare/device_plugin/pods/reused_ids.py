"""Which pod a call of the kubelet is for, if it gives out ids again. Pure.

Only an init container's ids are given out again, to a later container of its pod, and the kubelet asks for a pod's
containers in a row. So such a call, which names no pod either, proves whose the calls before it were.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

from gcushare.core.requests import ContainerKind
from gcushare.device_plugin.pods.allocations import PendingAllocation, PendingAllocations
from gcushare.device_plugin.pods.pod import PodEntry
from gcushare.wire.kubelet.device_lists import DeviceIds


def assign_reused(
    entries: Iterable[PodEntry], pending: PendingAllocations, ids: DeviceIds, amount: int, *, whole: bool
) -> list[PodEntry]:
    """Find the pods that a call for an amount can be for which has ``ids`` again, the likely one first.

    None if the ids are new. Otherwise the allocations that were taken for another pod's are now the likely one's.
    """
    able = [entry for entry in entries if entry.is_whole == whole]
    if not len(ids) or not any(entry.has_init for entry in able):
        return []
    before, made = pending.up_to_reuse(ids, whole=whole)
    found = [(entry, names) for entry in able if (names := _find_row(entry, before, made, amount))]
    found.sort(key=lambda each: (each[0].ref.uid != made[0].uid, not each[0].shown, each[0].age))
    if found:
        entry, names = found[0]
        pending.assign([*before, *made][-len(names) :], entry.ref.uid, names)
    return [entry for entry, _ in found]


def _find_row(
    entry: PodEntry, before: Sequence[PendingAllocation], made: Sequence[PendingAllocation], amount: int
) -> list[str]:
    """The containers of a pod that the last allocations can be for, if its next one asks for an amount; else none.

    The first of ``made`` is for the init container whose ids are given out again; those ``before`` it may be for the
    containers before that one. Calls for what the kubelet shows were found already; nothing that comes later is shown.
    """
    containers = entry.request.containers
    shown = next((at for at in range(len(containers), 0, -1) if containers[at - 1].name in entry.shown), 0)
    waiting = [container for container in containers if container.name not in entry.shown]
    amounts, earlier = ([sum(each.counts.values()) for each in some] for some in (made, before))
    rows: list[tuple[bool, list[str]]] = []
    for at, first in enumerate(waiting if made else ()):
        row = waiting[at : at + len(made) + 1]
        is_row = first.kind is ContainerKind.INIT and [container.amount for container in row] == [*amounts, amount]
        if is_row and row[-1] in containers[shown:]:
            pairs = zip(reversed(waiting[:at]), reversed(earlier), strict=False)
            known = len(list(takewhile(lambda pair: pair[0].amount == pair[1], pairs)))
            is_stored = (made[0].uid, made[0].container) == (entry.ref.uid, first.name)
            rows.append((is_stored, [container.name for container in (*waiting[at - known : at], *row[:-1])]))
    return max(rows, key=lambda row: (row[0], len(row[1])), default=(False, []))[1]
