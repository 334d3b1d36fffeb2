"""Keeps the limits of all pods with cards in the driver: before their containers start, and ever after.

Nothing is remembered that cannot be found again: who holds what comes from the pods of the node, the rest from the
control groups and the driver. So a restart of this program, of the kubelet or of the driver changes nothing for long.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path

from gcushare.cards.health import CardsSnapshot
from gcushare.core.assignments import PodRef
from gcushare.core.cards import Health, Inventory
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields
from gcushare.core.over_use.tracking import gib_text
from gcushare.node.api_server import Announcer
from gcushare.node.driver_limits.control_groups import PodGroups, find_pod_groups, is_hierarchical
from gcushare.node.driver_limits.driver_limiter import DriverLimiter
from gcushare.node.driver_limits.pod_amounts import PodLimit, limited_pods, pod_limits
from gcushare.node.driver_limits.pod_groups import HASTY_FOR_S, PodGroupLimits
from gcushare.node.pod_use import CardPolls
from gcushare.node.pods import NodePods, machine_uids

logger = logging.getLogger(__name__)

POLL_S = 5.0
HASTE_S = 0.1
"""Between two looks for the group of a container that is being created."""
NO_AMOUNTS: Mapping[int, int] = {}


@dataclass(frozen=True, slots=True)
class _Start:
    """A pod whose container is being created: its bytes of each card, and until when its group is looked for.

    ``limit`` is None while the pod's own group is looked for; ``groups`` are those of the pod.
    """

    until_s: float
    limit: PodLimit | None = None
    groups: tuple[Path, ...] = ()
    amounts: Mapping[int, int] = field(default_factory=dict)


@dataclass(eq=False)
class DriverLimits:
    """One node's limits. ``on_change`` is called when cards open or close because limits can be kept there or not.

    ``used``: what the driver counts, by pod uid and card index, as far as it does. ``unlimited``: why pods have no
    limit, by uid.
    """

    limiter: DriverLimiter
    root: Path
    pods: NodePods
    polls: CardPolls
    announcer: Announcer
    on_change: Callable[[], None]
    _: KW_ONLY
    inventory: Callable[[], Inventory | None]

    def __post_init__(self) -> None:
        self._groups = self.limiter.groups
        self._lock = asyncio.Lock()
        self._started = asyncio.Event()
        self._starts: dict[str, _Start] = {}
        """The last container of each pod that was to be created, by the pod's uid."""
        self._is_thorough = True
        """Whether closed cards are looked at again, not only closed where this process has not done so."""
        self._reported: tuple[str, str] | None = None
        self._waiting: dict[str, frozenset[int]] = {}
        self._snapshot: CardsSnapshot | None = None
        self._others: dict[int, int] = {}
        """Bytes by card that are in use and that the driver counts for no pod, at the last poll of the cards."""
        self.used: dict[str, dict[int, int]] = {}
        self.unlimited: dict[str, str] = {}

    @property
    def problem(self) -> str:
        """Why memory is not limited, of the node, of cards and of pods; "" if it is."""
        pods = [why for uid, why in sorted(self.unlimited.items()) if uid in limited_pods(self.pods)]
        return "; ".join(filter(None, (self.limiter.problem, *pods)))

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
                            seen = await self.polls.wait_poll(seen)
        finally:
            await self.limiter.source.close()

    async def count(self) -> Mapping[str, Mapping[int, int]] | None:
        """Read what the driver counts now, as ``used``; None if it keeps limits on no card, and so counts nothing."""
        if not self.limiter.is_counting:
            return None
        await self._read_use(await self._find_groups())
        # A copy, as limits that are set between two counts change ``used``.
        return {uid: dict(of_cards) for uid, of_cards in self.used.items()}

    async def ensure(self, uid: str, amounts: Mapping[int, int] = NO_AMOUNTS) -> None:
        """Set a pod's limits, before a container of it is created.

        ``amounts``: the bytes of each card of that container alone. Of a pod with whole cards the next poll closes the
        other cards: it shares its own with no other pod, and starts without a limit.

        Raises:
            DeviceError: a limit cannot be set, and ``--limit-fallback`` is ``refuse``.
        """
        inventory, groups = self.inventory(), await self._find_groups()
        if inventory is None:
            raise DeviceError("the cards of this node are not known yet; the kubelet tries again")
        limit = (await self._make_room(inventory, groups)).get(uid)
        if limit is not None and None not in limit.hard.values():
            await self.ensure_limit(limit, amounts, groups)

    async def ensure_limit(
        self, limit: PodLimit, amounts: Mapping[int, int] = NO_AMOUNTS, groups: PodGroups | None = None
    ) -> None:
        """As ``ensure``, for a pod whose limits are known; other pods are left as they are."""
        if groups is None:
            groups = await self._find_groups()
        found = groups.pods.get(limit.group_uid, ())
        async with self._lock:
            try:
                if not found:
                    where = groups.problem or f"no control group of it is below {str(self.root)!r}"
                    raise DeviceError(f"{where}, where the kubelet should have made it")
                await self._keep(limit, found)
            except DeviceError as error:
                if not self.limiter.is_kept_by_mps(limit.hard.keys()):
                    self._report_failure(limit.ref, error)
                return
        self.unlimited.pop(limit.ref.uid, None)
        own = {index: size + limit.lent.get(index, 0) for index, size in amounts.items()}
        self._follow(limit.ref.uid, _Start(self._hasty_until(), limit, found, own))

    def expect(self, uid: str) -> None:
        """Limit a pod as soon as its group is there, if it has no limit yet and the kubelet may not ask for it."""
        if uid not in self._starts and uid not in self.used:
            self._follow(uid, _Start(self._hasty_until()))

    async def poll(self) -> None:
        """Check the driver, and the limits of every pod, once."""
        groups = await self._find_groups()
        async with self._lock:
            is_new = await self.limiter.try_cards(groups)
        if is_new:
            self.on_change()
        self._report_change()
        inventory = self.inventory()
        if inventory is None or self.limiter.node_problem:
            return
        self._groups.forget_others({each for found in groups.pods.values() for each in found})
        await self._read_use(groups)
        self._read_others()
        limits = await self._make_room(inventory, groups)
        await self._keep_each(limits.values(), groups)
        self._is_thorough = self._groups.lost > 0
        if self._is_thorough:
            await self._keep_each(limits.values(), groups)
        self.unlimited = {uid: why for uid, why in self.unlimited.items() if uid in limits}
        self._waiting = {uid: cards for uid, cards in self._waiting.items() if uid in limits}
        lost, self._groups.lost = self._groups.lost, 0
        if lost:
            words = f"the driver had lost {lost} memory limits, as when it is loaded again; they are set again"
            self.announcer.about_node("MemoryLimitsLost", words, warning=True)
            logger.warning("%s", words)

    async def _find_groups(self) -> PodGroups:
        return await asyncio.to_thread(find_pod_groups, self.root)

    async def _make_room(self, inventory: Inventory, groups: PodGroups) -> dict[str, PodLimit]:
        """Return the limits of all pods, after those that may have to fall for another pod have.

        What such a pod keeps is what it uses, and that is known only once its limit has fallen.
        """
        yielding = {uid for uid, each in self.pods.entries.items() if each.limit}
        yielding.update(uid for uids, _ in self.pods.shared() for uid in uids)
        if yielding:
            await self._read_use(groups)
        limits = pod_limits(self.pods, inventory, self._others, self.used)
        if yielding:
            falling = [limits[uid] for uid in sorted(yielding & limits.keys())]
            await self._keep_each(falling, groups, may_rise=False)
            limits = pod_limits(self.pods, inventory, self._others, self.used)
        return limits

    async def _keep_each(self, limits: Iterable[PodLimit], groups: PodGroups, *, may_rise: bool = True) -> None:
        """Set the limits of each pod that has groups; what fails is noted on the pod."""
        for limit in limits:
            if not (found := groups.pods.get(limit.group_uid, ())):
                continue
            async with self._lock:
                try:
                    await self._keep(limit, found, may_rise=may_rise)
                except DeviceError as error:
                    # A pod that has ended meanwhile has no group any more.
                    if all(map(Path.exists, found)) and not self.limiter.is_kept_by_mps(limit.hard.keys()):
                        self._note(limit.ref, f"pod {limit.ref} has no limit: {error}", "MemoryNotLimited")
                else:
                    self.unlimited.pop(limit.ref.uid, None)

    async def _read_use(self, groups: PodGroups) -> None:
        """Read what each pod uses. Without the kernel's controller the driver counts only where it has set a limit."""
        used: dict[str, dict[int, int]] = {}
        inventory, on_machine = self.inventory(), machine_uids(self.pods.everyone.values())
        for uid, entry in limited_pods(self.pods).items():
            found = groups.pods.get(on_machine[uid], ())
            for index in entry.taken_cards:
                try:
                    card = await self.limiter.find(inventory, index)
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
        found = self.polls.snapshot
        if found is self._snapshot:
            return
        self._snapshot = found
        self._others = {
            index: max(0, use.memory_used_bytes - sum(cards.get(index, 0) for cards in self.used.values()))
            for index, use in found.uses.items()
            if use.memory_used_bytes is not None and index not in found.unread
        }

    async def _keep(self, limit: PodLimit, found: tuple[Path, ...], *, may_rise: bool = True) -> None:
        start = self._starts.get(limit.ref.uid)
        if start is not None and (may_rise or start.limit is not None):
            self._starts[limit.ref.uid] = replace(start, limit=limit, groups=found)
        amounts = start.amounts if start is not None else NO_AMOUNTS
        sick = {each.uuid for each in self.polls.snapshot.cards if each.health is not Health.HEALTHY}
        setting = PodGroupLimits(self.limiter, self.inventory(), limit, found)
        self.used.setdefault(limit.ref.uid, {}).update(await setting.keep(amounts, may_rise=may_rise))
        if may_rise:
            # Of whole cards alone there is no limit whose loss would be seen.
            await setting.close_others(sick, is_thorough=self._is_thorough or not limit.lent)
            self._report_waiting(limit)

    def _report_change(self) -> None:
        """Post what became of the limits, of the driver or of MPS in its place, once that is known."""
        mps = self.limiter.mps
        found = (self.limiter.driver_problem, self.limiter.problem)
        if found == self._reported or (mps is not None and mps.is_awaited):
            return
        self._reported = found
        if problem := self.limiter.problem:
            words = f"{problem}; {self.limiter.effect}"
            self.announcer.about_node("MemoryLimitUnavailable", words, warning=True)
            logger.warning("no memory is limited %s", fields(reason=problem))
        else:
            by_mps = self.limiter.driver_problem and f"MPS, where the driver does not: {self.limiter.driver_problem}"
            words = f"memory is limited by {by_mps or 'the driver'}"
            self.announcer.about_node("MemoryLimitAvailable", words, warning=False)

    def _report_failure(self, pod: PodRef, error: DeviceError) -> None:
        """Post why a container starts without its limit, or raise why it does not start."""
        if self.limiter.refuses:
            words = (
                f"memory cannot be limited: {error}; the container does not start without its limit, and the kubelet "
                "tries again (limitFallback: unlimited lets it start)"
            )
            self._note(pod, words, "MemoryLimitFailed")
            raise DeviceError(words) from error
        self._note(pod, f"pod {pod} has no limit: {error}", "MemoryNotLimited")

    def _report_waiting(self, limit: PodLimit) -> None:
        """Post that other pods have more than their part of a claim, once for each pod and card."""
        before = self._waiting.get(limit.ref.uid, frozenset())
        self._waiting[limit.ref.uid] = limit.waits
        for index in sorted(limit.waits - before):
            words = (
                f"its limit of card {index} is {gib_text(limit.hard[index] or 0)} now: pods that share its claim use "
                "more than their equal parts; it grows as they free memory or end"
            )
            self.announcer.about_pod(limit.ref, "SharedMemoryInUse", words, warning=True)
            logger.info("a pod waits for memory of its claim %s", fields(pod=limit.ref, card=index))

    def _note(self, pod: PodRef, words: str, reason: str) -> None:
        if self.unlimited.get(pod.uid) != words:
            self.announcer.about_pod(pod, reason, words, warning=True)
            logger.warning("%s %s", reason, fields(pod=pod, reason=words))
        self.unlimited[pod.uid] = words

    @staticmethod
    def _hasty_until() -> float:
        return asyncio.get_running_loop().time() + HASTY_FOR_S

    def _follow(self, uid: str, start: _Start) -> None:
        self._starts[uid] = start
        self._started.set()

    async def _follow_starts(self) -> None:
        """Set the limits of containers that are being created, as soon as their groups appear."""
        loop = asyncio.get_running_loop()
        while True:
            await self._started.wait()
            self._started.clear()
            while self._starts:
                if any(each.limit is None for each in self._starts.values()):
                    await self._limit_expected()
                for start in tuple(self._starts.values()):
                    if start.limit is not None:
                        await self._keep_each([start.limit], PodGroups({start.limit.group_uid: start.groups}))
                await asyncio.sleep(HASTE_S)
                self._starts = {uid: each for uid, each in self._starts.items() if each.until_s > loop.time()}

    async def _limit_expected(self) -> None:
        """Limit the pods whose groups are expected and there."""
        inventory, groups = self.inventory(), await self._find_groups()
        waiting = {uid for uid, each in self._starts.items() if each.limit is None} & self.pods.entries.keys()
        here = {uid for uid in waiting if uid in groups.pods}
        if inventory is not None and here:
            limits = await self._make_room(inventory, groups)
            await self._keep_each([limits[uid] for uid in sorted(here & limits.keys())], groups)
