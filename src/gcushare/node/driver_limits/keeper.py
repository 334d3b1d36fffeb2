"""Keeps the limits of all pods with shared memory in the driver: before their containers start, and ever after.

Nothing is remembered that cannot be found again: who holds what comes from the pods of the node, the rest from the
control groups and the driver. So a restart of this program, of the kubelet or of the driver changes nothing for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gcushare.cards.errors import LibraryCallError
from gcushare.cards.health import CardsSnapshot
from gcushare.cards.ports import GroupMemory, LimitSource
from gcushare.core.assignments import PodRef
from gcushare.core.cards import Card, Inventory
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields
from gcushare.node.api_server import Announcer
from gcushare.node.driver_limits.group_limits import GroupLimits
from gcushare.node.driver_limits.groups import PodGroups, child_groups, find_pod_groups, is_hierarchical
from gcushare.node.driver_limits.limiter import DriverLimiter
from gcushare.node.driver_limits.wanted import PodLimit, burst_growth, pod_limit
from gcushare.node.pod_use import CardPolls
from gcushare.node.pods import NodePods, PodWithCards

logger = logging.getLogger(__name__)

POLL_S = 5.0
HASTE_S = 0.1
"""Between two looks for the group of a container that is being created."""
HASTY_FOR_S = 15.0
NO_AMOUNTS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class _Start:
    """A container that is being created: its pod, its bytes of each card, and until when its group is looked for.

    ``groups`` of the pod: none if they are to be found yet.
    """

    limit: PodLimit
    groups: tuple[Path, ...]
    amounts: Mapping[int, int]
    until_s: float


class DriverLimits:
    """One node's limits. ``on_change`` is called when cards open or close because limits can be kept there or not.

    ``used``: what the driver counts, by pod uid and card index, as far as it does. ``unlimited``: why pods have no
    limit, by uid.
    """

    def __init__(
        self,
        source: LimitSource,
        root: Path,
        limiter: DriverLimiter,
        pods: NodePods,
        polls: CardPolls,
        announcer: Announcer,
        on_change: Callable[[], None],
        *,
        inventory: Callable[[], Inventory | None],
    ) -> None:
        self._source = source
        self._root = root
        self._limiter = limiter
        self._pods = pods
        self._polls = polls
        self._announcer = announcer
        self._on_change = on_change
        self._inventory = inventory
        self._groups = GroupLimits(source)
        self._cards: dict[str, Card] = {}
        self._lock = asyncio.Lock()
        self._started = asyncio.Event()
        self._is_checked = False
        self._starts: dict[str, _Start] = {}
        """The last container of each pod that was to be created, by the pod's uid."""
        self._snapshot: CardsSnapshot | None = None
        self._others: dict[int, int] = {}
        """Bytes by card that are in use and that the driver counts for no pod, at the last poll of the cards."""
        self.used: dict[str, dict[int, int]] = {}
        self.unlimited: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """Why memory is not limited, of the node, of cards and of pods; "" if it is."""
        names = {card.uuid: f"card {card.index}" for card in self._cards.values()}
        cards = [f"{names.get(uuid, uuid)}: {why}" for uuid, why in sorted(self._limiter.card_problems.items())]
        pods = [why for uid, why in sorted(self.unlimited.items()) if uid in self._pods.entries]
        return self._limiter.node_problem or "; ".join((*cards, *pods))

    async def run(self) -> None:
        """Keep the limits until cancelled: after each poll of the cards, whose figures are then of the same moment."""
        seen = 0
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._follow_starts(), name="groups of new containers")
                while True:
                    await self.poll()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(POLL_S):
                            seen = await self._polls.wait_poll(seen)
        finally:
            await self._source.close()

    async def count(self) -> Mapping[str, Mapping[int, int]] | None:
        """Read what the driver counts now, as ``used``; None if it keeps limits on no card, and so counts nothing."""
        if self._limiter.node_problem or self._cards.keys() <= self._limiter.card_problems.keys():
            return None
        await self._read_use(await asyncio.to_thread(find_pod_groups, self._root))
        # A copy, as limits that are set between two counts change ``used``.
        return {uid: dict(of_cards) for uid, of_cards in self.used.items()}

    async def ensure(self, entry: PodWithCards, amounts: Mapping[int, int] = NO_AMOUNTS) -> None:
        """Set a pod's limits, before a container of it is created.

        ``amounts``: the bytes of each card of that container alone.

        Raises:
            DeviceError: a limit cannot be set, and ``--limit-fallback`` is ``refuse``.
        """
        inventory = self._inventory()
        if inventory is None:
            raise DeviceError("the cards of this node are not known yet; the kubelet tries again")
        groups = await asyncio.to_thread(find_pod_groups, self._root)
        if any(each.limit for each in self._pods.entries.values()):
            await self._read_use(groups)
        growth = burst_growth(self._pods, inventory, self._others, self.used)
        limit = pod_limit(entry, inventory, growth, self.used)
        if limit is None:
            return
        others = [each for each in self._pods.entries.values() if each.limit and each.ref.uid != entry.ref.uid]
        await self._keep_each(self._limits_of(others, inventory, growth), groups)
        await self.ensure_limit(limit, amounts, groups)

    async def ensure_limit(
        self, limit: PodLimit, amounts: Mapping[int, int] = NO_AMOUNTS, groups: PodGroups | None = None
    ) -> None:
        """As ``ensure``, for a pod whose limits are known; pods that burst are left as they are."""
        if groups is None:
            groups = await asyncio.to_thread(find_pod_groups, self._root)
        found = groups.pods.get(limit.group_uid, ())
        async with self._lock:
            try:
                if not found:
                    where = groups.problem or f"no control group of it is below {str(self._root)!r}"
                    raise DeviceError(f"{where}, where the kubelet should have made it")
                await self._keep(limit, found)
            except DeviceError as error:
                self._report_failure(limit.ref, error)
                return
        self.unlimited.pop(limit.ref.uid, None)
        own = {index: size + limit.lent.get(index, 0) for index, size in amounts.items()}
        until_s = asyncio.get_running_loop().time() + HASTY_FOR_S
        self._starts[limit.ref.uid] = _Start(limit, found, own, until_s)
        self._started.set()

    def expect(self, entry: PodWithCards) -> None:
        """Limit a pod as soon as its group is there, if it has no limit yet and the kubelet may not ask for it."""
        inventory, uid = self._inventory(), entry.ref.uid
        if inventory is None or uid in self._starts or uid in self.used:
            return
        if (limit := pod_limit(entry, inventory, {}, self.used)) is not None:
            self._starts[uid] = _Start(limit, (), NO_AMOUNTS, asyncio.get_running_loop().time() + HASTY_FOR_S)
            self._started.set()

    async def poll(self) -> None:
        """Check the driver, and the limits of every pod, once."""
        groups = await asyncio.to_thread(find_pod_groups, self._root)
        async with self._lock:
            await self._check_cards(groups)
        inventory = self._inventory()
        if inventory is None or self._limiter.node_problem:
            return
        self._groups.forget_others({each for found in groups.pods.values() for each in found})
        await self._read_use(groups)
        self._read_others()
        growth = burst_growth(self._pods, inventory, self._others, self.used)
        limits = self._limits_of(self._pods.entries.values(), inventory, growth)
        await self._keep_each(limits, groups)
        pods = {limit.ref.uid for limit in limits}
        self.unlimited = {uid: why for uid, why in self.unlimited.items() if uid in pods}
        lost, self._groups.lost = self._groups.lost, 0
        if lost:
            words = f"the driver had lost {lost} memory limits, as when it is loaded again; they are set again"
            self._announcer.about_node("MemoryLimitsLost", words, warning=True)
            logger.warning("%s", words)

    async def _keep_each(self, limits: Iterable[PodLimit], groups: PodGroups) -> None:
        """Set the limits of each pod that has groups; what fails is noted on the pod."""
        for limit in limits:
            if not (found := groups.pods.get(limit.group_uid, ())):
                continue
            async with self._lock:
                try:
                    await self._keep(limit, found)
                except DeviceError as error:
                    if all(map(Path.exists, found)):  # else the pod has ended meanwhile
                        self._note(limit.ref, f"pod {limit.ref} has no limit: {error}", "MemoryNotLimited")
                else:
                    self.unlimited.pop(limit.ref.uid, None)

    async def _read_use(self, groups: PodGroups) -> None:
        """Read what each pod uses. Without the kernel's controller the driver counts only where it has set a limit."""
        used: dict[str, dict[int, int]] = {}
        for uid, entry in tuple(self._pods.entries.items()):
            found = groups.pods.get(entry.machine_uid or uid, ())
            for index in entry.taken_cards:
                try:
                    card = await self._card(index)
                    read = [await self._groups.read(group, card) for group in found]
                except DeviceError as error:
                    logger.debug("the use of a pod is not known %s", fields(pod=entry.ref, card=index, reason=error))
                    continue
                has_limits = uid not in self.unlimited and all(each.hard_bytes is not None for each in read)
                if found and (has_limits or all(map(is_hierarchical, found))):
                    used.setdefault(uid, {})[index] = sum(each.used_bytes for each in read)
        self.used = used

    def _read_others(self) -> None:
        """Compute what is in use besides pods, once for each poll of the cards: later figures would not fit to it."""
        found = self._polls.snapshot
        if found is self._snapshot:
            return
        self._snapshot = found
        self._others = {
            index: max(0, use.memory_used_bytes - sum(cards.get(index, 0) for cards in self.used.values()))
            for index, use in found.uses.items()
            if use.memory_used_bytes is not None and index not in found.unread
        }

    def _limits_of(
        self, entries: Iterable[PodWithCards], inventory: Inventory, growth: Mapping[int, int]
    ) -> list[PodLimit]:
        found = (pod_limit(entry, inventory, growth, self.used) for entry in entries)
        return [limit for limit in found if limit is not None]

    async def _keep(self, limit: PodLimit, found: tuple[Path, ...]) -> None:
        """Set the limits of a pod's groups."""
        start = self._starts.get(limit.ref.uid)
        if start is not None:
            self._starts[limit.ref.uid] = replace(start, limit=limit)
        for index, hard_bytes in limit.hard.items():
            card = await self._card(index)
            amount = start.amounts.get(index) if start is not None else None
            in_use = 0
            for group in found:
                before, now = await self._groups.keep(group, card, hard_bytes)
                in_use += now.used_bytes
                await self._keep_children(group, card, before, now, amount)
            self.used.setdefault(limit.ref.uid, {})[index] = in_use

    async def _keep_children(
        self, group: Path, card: Card, before: GroupMemory, now: GroupMemory, amount: int | None
    ) -> None:
        """Set what a pod's containers see of a card, within what the pod has; ``amount`` is that of a new one.

        With the kernel's controller a container without a limit of its own sees the whole card. Without it a limit of
        its own would count in place of the pod's.
        """
        most = now.hard_bytes or 0
        for child in child_groups(group):
            try:
                found = await self._groups.read(child, card)
                own = found.hard_bytes
                if not is_hierarchical(child):
                    if own is not None and own != most:
                        await self._groups.remove(child, card)
                    continue
                if own is None:
                    wanted = most if amount is None else min(most, amount)
                elif before.hard_bytes is not None and before.hard_bytes != most:
                    wanted = min(most, own + most - before.hard_bytes)
                else:
                    wanted = min(most, own)
                if own != wanted:
                    await self._source.limit_group(card, str(child), max(wanted, found.used_bytes))
            except DeviceError as error:
                # The container has ended meanwhile, or has just allocated more: the next poll sets it.
                logger.debug("a container's group keeps its limit %s", fields(group=child, reason=error))

    async def _card(self, index: int) -> Card:
        inventory = self._inventory()
        uuid = next((each.uuid for each in inventory.cards if each.index == index), "") if inventory else ""
        if uuid not in self._cards:
            await self._list_cards()
        if uuid not in self._cards:
            raise DeviceError(f"card {index} is not listed by its library")
        return self._cards[uuid]

    async def _list_cards(self) -> None:
        self._cards = {card.uuid: card for card in (await self._source.list_cards()).cards}

    async def _check_cards(self, groups: PodGroups) -> None:
        """Find out where limits can be kept, by setting one that the groups of all pods have anyway: none."""
        problems: dict[str, str] = {}
        node_problem = groups.problem
        try:
            if groups.top is not None:
                self._limiter.is_hierarchical = is_hierarchical(groups.top)
                await self._list_cards()
                for uuid, card in self._cards.items():
                    if problem := await self._check_card(card, groups.top):
                        problems[uuid] = problem
        except DeviceError as error:
            node_problem = str(error)
        self._is_checked = self._is_checked or not node_problem
        before = (self._limiter.node_problem, self._limiter.card_problems)
        self._limiter.node_problem, self._limiter.card_problems = node_problem, problems
        if before != (node_problem, problems):
            self._report_change()

    async def _check_card(self, card: Card, top: Path) -> str:
        try:
            found = await self._groups.read(top, card)
            # An admin's own limit of all pods stays as it is.
            await self._source.limit_group(card, str(top), found.hard_bytes)
        except LibraryCallError as error:
            return str(error)
        except DeviceError as error:  # which says nothing about limits
            return self._limiter.card_problems.get(card.uuid, "" if self._is_checked else str(error))
        return ""

    def _report_change(self) -> None:
        if self.problem:
            effect = "cards take no new pods" if self._limiter.refuses else "pods start without a limit"
            self._announcer.about_node("MemoryLimitUnavailable", f"{self.problem}; {effect}", warning=True)
            logger.warning("no memory is limited %s", fields(reason=self.problem))
        else:
            self._announcer.about_node("MemoryLimitAvailable", "memory is limited by the driver", warning=False)
        self._on_change()

    def _report_failure(self, pod: PodRef, error: DeviceError) -> None:
        """Post why a container starts without its limit, or raise why it does not start."""
        if self._limiter.refuses:
            words = (
                f"memory cannot be limited: {error}; the container does not start without its limit, and the kubelet "
                "tries again (limitFallback: unlimited lets it start)"
            )
            self._note(pod, words, "MemoryLimitFailed")
            raise DeviceError(words) from error
        self._note(pod, f"pod {pod} has no limit: {error}", "MemoryNotLimited")

    def _note(self, pod: PodRef, words: str, reason: str) -> None:
        if self.unlimited.get(pod.uid) != words:
            self._announcer.about_pod(pod, reason, words, warning=True)
            logger.warning("%s %s", reason, fields(pod=pod, reason=words))
        self.unlimited[pod.uid] = words

    async def _follow_starts(self) -> None:
        """Set the limits of containers that are being created, as soon as their groups appear."""
        loop = asyncio.get_running_loop()
        while True:
            await self._started.wait()
            self._started.clear()
            while self._starts:
                for start in tuple(self._starts.values()):
                    groups = PodGroups({start.limit.group_uid: start.groups})
                    if not start.groups:
                        groups = await asyncio.to_thread(find_pod_groups, self._root)
                    await self._keep_each([start.limit], groups)
                await asyncio.sleep(HASTE_S)
                self._starts = {uid: each for uid, each in self._starts.items() if each.until_s > loop.time()}
