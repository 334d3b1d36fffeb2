"""Finds how much of the cards each pod really uses, memory and chip, by the processes on the cards and their pods.

It does so after every poll of the cards; the result is valid until the next poll, like the cards' other readings.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Protocol

from gcushare.cards.health import CardsSnapshot
from gcushare.cards.process_owners import ProcessOwners
from gcushare.core.cards import Inventory
from gcushare.core.log_fields import fields
from gcushare.node.pods import NodePods, PodWithCards, machine_uids

logger = logging.getLogger(__name__)

Processes = Mapping[int, int]
"""Bytes of one card by process id."""
Counted = Mapping[str, Mapping[int, int]]
"""Bytes by pod uid and card."""
_NO_UTILIZATION: Mapping[int, Mapping[int, float]] = {}


@dataclass(frozen=True, slots=True)
class PodUse:
    """Bytes in use by pod uid and card index, and by card those of processes that belong to none of these pods.

    A card that is in neither has a library that lists no processes, or its use was not read. ``outside`` and ``ended``
    are parts of ``unattributed``: of processes that run in no pod, and of those that ended since the poll. The rest is
    of this program's own pod, of the MPS daemon's, and of pods that the API server does not have any more.
    ``utilization``: percents of the chip's time by pod uid and card, without cards whose library does
    not sample processes. ``by_driver``: pods and cards whose bytes the driver counts, by control group and contexts
    included; the others' are the sums over their processes. ``users``: the pods with a process on a card, however
    little memory it has. ``unclear``: cards with a process that may be any pod's; None where processes
    are not listed at all.
    """

    by_pod: Mapping[str, Mapping[int, int]]
    unattributed: Mapping[int, int]
    outside: Mapping[int, int] = field(default_factory=dict)
    ended: Mapping[int, int] = field(default_factory=dict)
    utilization: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    by_driver: frozenset[tuple[str, int]] = frozenset()
    users: frozenset[str] = frozenset()
    unclear: frozenset[int] | None = None

    def cards_by_driver(self, uid: str) -> tuple[int, ...]:
        """The cards of a pod whose bytes the driver counts."""
        return tuple(sorted(index for each, index in self.by_driver if each == uid))


class CardPolls(Protocol):
    """The last poll of the cards."""

    @property
    def snapshot(self) -> CardsSnapshot: ...

    async def wait_poll(self, after: int = 0) -> int: ...


def divide_use(
    cards: Mapping[int, Processes],
    owners: Mapping[int, str],
    pods: Iterable[PodWithCards],
    utilization: Mapping[int, Mapping[int, float]] = _NO_UTILIZATION,
) -> PodUse:
    """Add up each pod's processes, by card; ``owners`` are pods' uids by process id.

    A pod that has a card and no process on it uses none of it. A pod that uses a card it does not have is listed too.
    ``utilization`` has percents by card and process id.
    """
    entries = tuple(pods)
    known = {on_machine: uid for uid, on_machine in machine_uids(entries).items()}
    by_pod: dict[str, dict[int, int]] = {
        entry.ref.uid: {index: 0 for index in entry.taken_cards if index in cards} for entry in entries
    }
    unattributed = dict.fromkeys(cards, 0)
    for index, processes in cards.items():
        for pid, size in processes.items():
            uid = known.get(owners.get(pid, ""))
            if uid is None:
                unattributed[index] += size
            else:
                by_pod[uid][index] = by_pod[uid].get(index, 0) + size
    busy: dict[str, dict[int, float]] = {
        uid: {index: 0.0 for index in found if index in utilization} for uid, found in by_pod.items()
    }
    for index, percents in utilization.items():
        for pid, percent in percents.items():
            uid = known.get(owners.get(pid, ""))
            if uid is not None:
                busy[uid][index] = busy[uid].get(index, 0.0) + percent
    return PodUse(
        {uid: found for uid, found in by_pod.items() if found},
        unattributed,
        utilization={uid: found for uid, found in busy.items() if found},
    )


def granted_bytes(entry: PodWithCards, inventory: Inventory | None) -> dict[int, int]:
    """The bytes that a pod may use of each card that it holds; of a whole card all of its memory."""
    if inventory is None:
        return {}
    cards = {card.index: card for card in inventory.cards}
    if entry.is_whole:
        return {index: cards[index].memory_bytes for index in entry.taken_cards if index in cards}
    return {index: inventory.unit.bytes_of(units) for index, units in entry.units_by_card().items()}


def _places(counted: Counted) -> frozenset[tuple[str, int]]:
    return frozenset((uid, index) for uid, of_cards in counted.items() for index in of_cards)


def _sum_of(processes: Processes, pids: Collection[int]) -> int:
    return sum(size for pid, size in processes.items() if pid in pids)


@dataclass(eq=False)
class PodMemoryMonitor:
    """Keeps the pods' use. ``problem`` says why it is unknown; ``latest`` is None then, and before the first poll.

    ``count``: what the driver counts, by pod uid and card; it returns None where the driver counts nothing.
    """

    polls: CardPolls
    pods: NodePods
    owners: ProcessOwners
    _: KW_ONLY
    own_pid: int | None = None
    count: Callable[[], Awaitable[Counted | None]] | None = None

    def __post_init__(self) -> None:
        self._latest: PodUse | None = None
        self._owned: Mapping[int, str] = {}
        self.problem = ""

    @property
    def latest(self) -> PodUse | None:
        """The last result, of pods that are still here."""
        if self._latest is None:
            return None
        here = self.pods.everyone
        by_pod = {uid: found for uid, found in self._latest.by_pod.items() if uid in here}
        busy = {uid: found for uid, found in self._latest.utilization.items() if uid in here}
        return replace(self._latest, by_pod=by_pod, utilization=busy)

    async def run(self, on_refresh: Callable[[], None]) -> None:
        """Find the processes after each poll of the cards, until cancelled; ``on_refresh`` is called each time."""
        seen = 0
        while True:
            seen = await self.polls.wait_poll(seen)
            await self.refresh()
            on_refresh()

    async def refresh(self) -> None:
        """Find the pods of the present processes.

        /proc is read in a thread: the kernel may block a reader on its lock of control groups.
        """
        counted = await self.count() if self.count is not None else None
        uses = self.polls.snapshot.uses
        cards = {index: use.processes for index, use in uses.items() if use.processes is not None}
        pids = {pid for processes in cards.values() for pid in processes}
        if self.own_pid is not None:
            pids.add(self.own_pid)
        problem, owners, outsiders = await asyncio.to_thread(
            lambda: (self.owners.problem(), self.owners.find(pids), self.owners.outsiders)
        )
        if counted is not None and problem:
            self.problem, self._latest = "", self._count_alone(counted)
            return
        if problem and problem != self.problem:
            logger.warning("use per pod is not known %s", fields(reason=problem))
        self.problem = problem
        if problem:
            self._latest = None
            return
        own = owners.get(self.own_pid, "") if self.own_pid is not None else ""
        busy = {index: each for index, use in uses.items() if (each := use.process_utilization) is not None}
        others = {pid: uid for pid, uid in owners.items() if uid != own}
        found = divide_use(cards, others, self.pods.everyone.values(), busy)
        outside = {index: _sum_of(each, outsiders) for index, each in cards.items()}
        ended = {index: _sum_of(each, each.keys() - owners.keys() - outsiders) for index, each in cards.items()}
        by_pod = {uid: {**found.by_pod.get(uid, {}), **of_cards} for uid, of_cards in (counted or {}).items()}
        # A process that ended since the poll is most likely the one that had its id at the poll before.
        owned, self._owned = {**self._owned, **owners}, owners
        users = {owned[pid] for each in cards.values() for pid in each if pid in owned}
        unclear = frozenset(index for index, each in cards.items() if not each.keys() <= owned.keys() | outsiders)
        known = {on_machine: uid for uid, on_machine in machine_uids(self.pods.everyone.values()).items()}
        self._latest = replace(
            found,
            by_pod={**found.by_pod, **by_pod},
            outside=outside,
            ended=ended,
            by_driver=_places(counted or {}),
            users=frozenset(known[each] for each in users if each in known),
            unclear=unclear,
        )

    def _count_alone(self, counted: Counted) -> PodUse:
        """What is known where the host's processes are not: of a card with a pod that is not counted, that alone."""
        pods = self.pods.entries
        unknown = {index for uid, pod in pods.items() for index in pod.taken_cards if index not in counted.get(uid, {})}
        rest = {
            index: max(0, use.memory_used_bytes - sum(of_cards.get(index, 0) for of_cards in counted.values()))
            for index, use in self.polls.snapshot.uses.items()
            if use.memory_used_bytes is not None and index not in unknown
        }
        return PodUse(counted, rest, outside=rest, by_driver=_places(counted))
