"""Which pod a call of the kubelet is for, if it gives out ids again. Pure.

Only an init container's ids are given out again, to a later container of its pod, and the kubelet asks for a pod's
containers in a row. So such a call, which names no pod either, proves whose the calls before it were.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import takewhile

from gcushare.core.requests import ContainerKind
from gcushare.device_plugin.pods.allocations import PendingAllocation, PendingAllocations
from gcushare.device_plugin.pods.pod import PodEntry
from gcushare.wire.kubelet.plugin_messages import DeviceIds


def assign_reused(
    entries: Iterable[PodEntry], pending: PendingAllocations, ids: DeviceIds, amount: int, *, whole: bool
) -> list[PodEntry]:
    """Find the pods that a call for an amount can be for which has ``ids`` again, the likely one first.

    None if the ids are new. Otherwise the allocations that were taken for another pod's are now the likely one's.
    """
    if not len(ids):
        return []
    able = [entry for entry in entries if entry.is_whole == whole]
    if not any(entry.has_init for entry in able):
        return []
    before, made = pending.up_to_reuse(ids, whole=whole)
    rows = [(entry, names) for entry in able for names in _find_rows(entry, before, made, amount)]

    def rank(row: tuple[PodEntry, list[str]]) -> tuple[object, ...]:
        """What is stored already comes first, then what explains most allocations."""
        entry, names = row
        stored = [each.container for each in (*before, *made) if each.uid == entry.ref.uid]
        return stored[-len(names) :] != names, -len(names), entry.ref.uid != made[0].uid, not entry.shown, entry.age

    rows.sort(key=rank)
    if rows:
        entry, names = rows[0]
        pending.assign([*before, *made][-len(names) :], entry.ref.uid, names)
    return list({entry.ref.uid: entry for entry, _ in rows}.values())


def _find_rows(
    entry: PodEntry, before: Sequence[PendingAllocation], made: Sequence[PendingAllocation], amount: int
) -> Iterator[list[str]]:
    """The containers of a pod that the last allocations can be for, if its next one asks for an amount.

    The first of ``made`` is for the init container whose ids are given out again; those ``before`` it may be for the
    containers before that one. Calls for what the kubelet shows were found already; nothing that comes later is shown.
    """
    containers = entry.request.containers
    later = containers[entry.served_up_to(entry.shown) :]
    waiting = [container for container in containers if container.name not in entry.shown]
    amounts, earlier = ([sum(each.counts.values()) for each in some] for some in (made, before))
    for at, first in enumerate(waiting if made else ()):
        row = waiting[at : at + len(made) + 1]
        is_row = first.kind is ContainerKind.INIT and [container.amount for container in row] == [*amounts, amount]
        if is_row and row[-1] in later:
            pairs = zip(reversed(waiting[:at]), reversed(earlier), strict=False)
            known = len(list(takewhile(lambda pair: pair[0].amount == pair[1], pairs)))
            yield [container.name for container in (*waiting[at - known : at], *row[:-1])]
