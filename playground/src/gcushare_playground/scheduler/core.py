"""Which pod is tried when, on which node it is placed, and what becomes of a failed attempt. No I/O of its own.

The playground's scheduler and the simulation's are made of it: they say what happened, and how to write.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from typing import Any

from gcushare.core.errors import GcushareError
from gcushare_playground.scheduler.cache import ClusterCache, NodeView
from gcushare_playground.scheduler.claims import ClaimsView
from gcushare_playground.scheduler.deciding import Decider, NoFit
from gcushare_playground.scheduler.extender import Extender, ExtenderError
from gcushare_playground.scheduler.fitting import find_refusal
from gcushare_playground.scheduler.objects import NodeInfo, PodInfo
from gcushare_playground.scheduler.queueing import QueuedPod, SchedulingQueue
from gcushare_playground.scheduler.settings import NAME, SchedulerSettings

logger = logging.getLogger(__name__)


class SchedulerCore:
    """One scheduler's state and decisions; subclasses do what reaches outside. ``clock`` is in seconds."""

    def __init__(
        self,
        settings: SchedulerSettings,
        extenders: Sequence[Extender],
        *,
        clock: Callable[[], float],
        rng: random.Random,
    ) -> None:
        self.settings = settings
        self.extenders = tuple(extenders)
        self.cache = ClusterCache(heeds_annotations=not settings.is_old)
        self.queue = SchedulingQueue(settings.pacing, clock, heeds_status=not settings.is_old)
        self._decider = Decider(self.extenders, settings.ignored_resources, rng)

    # What reaches outside

    async def read_claims(self, pod: PodInfo) -> ClaimsView | None:
        """Read what a pod with claims needs; None where a claim is not made yet."""
        raise NotImplementedError

    async def write_allocation(self, view: ClaimsView, pod: PodInfo, node: str) -> None:
        """Write what a pod's claims were allocated."""
        raise NotImplementedError

    async def bind_pod(self, pod: PodInfo, node: str) -> None:
        """Bind a pod that no extender binds."""
        raise NotImplementedError

    async def nominate(self, pod: PodInfo, node: str | None) -> bool:
        """Write for which node a pod is nominated; False where it is gone."""
        raise NotImplementedError

    async def evict(self, victims: Sequence[PodInfo], pod: PodInfo, node: str) -> None:
        """Let pods end for another one."""
        raise NotImplementedError

    def bound(self, pod: PodInfo, node: str) -> None:
        """A pod has its node."""

    def failed(self, pod: PodInfo, reason: str, message: str) -> None:
        """An attempt failed."""

    def gone(self, uid: str) -> None:
        """A pod is gone or has ended."""

    # What it does

    async def run(self, start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]) -> None:
        """Try one pod after another until cancelled; ``start`` begins a binding in the background."""
        while True:
            await self._try_next(start)

    def views(self, pod: PodInfo, without: Collection[str] = ()) -> list[NodeView]:
        """Every node as a pod finds it, those ``without``, by uid, as if gone.

        Nominees that are no less important count as if they ran.
        """
        nominees = [
            each
            for each in self.queue.pods()
            if each.nominated
            and each.uid != pod.uid
            and each.priority >= pod.priority
            and not self.cache.is_placed(each.uid)
        ]
        return self.cache.views(nominees, without)

    def fits(self, pod: PodInfo, name: str, without: Collection[str] = ()) -> bool:
        """Whether a node takes a pod by the scheduler's own filters."""
        view = next((each for each in self.views(pod, without) if each.name == name), None)
        return view is not None and find_refusal(pod, view, self.settings.ignored_resources) is None

    async def _try_next(self, start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]) -> None:
        queued = await self.queue.pop()
        pod = queued.pod
        claims: ClaimsView | None = None
        try:
            if pod.spec.get("resourceClaims"):
                claims = await self.read_claims(pod)
                if claims is None:  # the original keeps such a pod out of its queue, without an Event
                    self.queue.give_back(queued, is_error=True)
                    return
            chosen = await self._decider.choose(pod, self.views(pod), claims)
            if isinstance(chosen, NoFit):
                why_not = await self._preempt(pod, chosen)
                message = chosen.without_preemption(why_not) if why_not else chosen.message
                self._fail(queued, "Unschedulable", message, is_error=False)
                return
            if claims is not None:
                # Not in the background: the next pod must find these claims allocated.
                await self.write_allocation(claims, pod, chosen)
        except GcushareError as error:
            self._fail(queued, "SchedulerError", str(error), is_error=True)
            return
        if self.queue.find(pod.uid) is None:
            return  # deleted, or bound by somebody else, while we were thinking
        self.cache.assume(pod, chosen)
        logger.info("pod placed pod=%s uid=%s node=%s attempt=%d", pod.full_name, pod.uid, chosen, queued.attempts)
        start(self._bind(queued, pod, chosen))

    async def _preempt(self, pod: PodInfo, no_fit: NoFit) -> str:
        """Let less important pods end on one node, where the extenders agree; returns why none do, empty if some do.

        As kube-scheduler it waits while such pods are leaving the node that the pod is nominated for, and takes the
        nomination back where it has no one to propose.
        """
        if pod.nominated and any(each.is_deleting for each in self._lower(pod, pod.nominated)):
            return "not eligible due to a terminating pod on the nominated node."
        proposals = {name: victims for name in sorted(self.cache.nodes) if (victims := self._victims(pod, name))}
        if not proposals:
            if pod.nominated:
                await self.nominate(pod, None)
            return no_fit.victimless
        for extender in self.extenders:
            if proposals and extender.settings.preempt_verb and extender.is_interested(pod):
                try:
                    proposals = await extender.preempt(pod, proposals)
                    self._check_placed(extender, proposals)
                except ExtenderError as error:
                    if not extender.settings.ignorable:
                        return str(error)
        if not proposals or self.queue.find(pod.uid) is None:
            return "no candidate node for preemption"
        node = min(proposals, key=lambda name: (len(proposals[name]), name))
        if await self.nominate(pod, node):
            await self.evict([self.cache.bound[uid] for uid in proposals[node] if uid in self.cache.bound], pod, node)
        return ""

    def _check_placed(self, extender: Extender, named: Mapping[str, list[str]]) -> None:
        for node, uids in named.items():
            for uid in uids:
                if (found := self.cache.bound.get(uid)) is None or found.node_name != node:
                    raise ExtenderError(
                        f"extender: {extender.settings.url_prefix} claims to preempt pod (UID: &{{{uid}}}) on node: "
                        f"{node}, but the pod is not found on that node"
                    )

    def _victims(self, pod: PodInfo, node: str) -> list[str]:
        """The pods that kube-scheduler would end on a node: of the less important ones, those whose resources it needs.

        The more important and the older are the first to be spared. It counts a node's sums, not its cards, so none
        may be found where a card would have to be freed.
        """
        lower = self._lower(pod, node)
        ended = {each.uid for each in lower}
        if not self.fits(pod, node, without=ended):
            return []
        for each in sorted(lower, key=lambda each: -each.priority):
            ended.discard(each.uid)
            if not self.fits(pod, node, without=ended):
                ended.add(each.uid)
        return [each.uid for each in lower if each.uid in ended]

    def _lower(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """The pods of a node that are less important than another, and not over."""
        return [each for each in self.cache.bound.values() if each.node_name == node and each.priority < pod.priority]

    async def _bind(self, queued: QueuedPod, pod: PodInfo, node: str) -> None:
        """Bind in the background: meanwhile the next pods are tried, with this one counted on its node."""
        binder = next((each for each in self.extenders if each.is_binder and each.is_interested(pod)), None)
        try:
            if binder is not None:
                await binder.bind(pod, node)
            else:
                await self.bind_pod(pod, node)
        except GcushareError as error:
            self.cache.forget(pod.uid)
            self._fail(queued, "SchedulerError", str(error), is_error=True)
            # Whatever waits for the room may have it now.
            self.queue.cluster_changed()
            return
        self.queue.finish(pod.uid)
        self.bound(pod, node)

    def _fail(self, queued: QueuedPod, reason: str, message: str, *, is_error: bool) -> None:
        pod = self.queue.find(queued.pod.uid)
        self.queue.give_back(queued, is_error=is_error and not self.settings.is_old)
        if pod is None:
            return
        logger.info("pod not scheduled pod=%s uid=%s reason=%s message=%s", pod.full_name, pod.uid, reason, message)
        self.failed(pod, reason, message)

    def pod_changed(self, pod: PodInfo) -> None:
        """Take in a pod's newest state. As in kube-scheduler 1.36, a nomination that ends frees its room for others."""
        before = self.queue.find(pod.uid)
        if pod.is_finished:
            self.pod_gone(pod.uid)
        elif pod.node_name:
            self.queue.drop(pod.uid)
            self.cache.set_bound(pod)
        elif pod.scheduler_name == NAME and not pod.is_gated and not pod.is_deleting:
            # A pod that is being bound is only brought up to date: binding may fail.
            if self.queue.find(pod.uid) is not None or not self.cache.is_placed(pod.uid):
                self.queue.put(pod)
        else:
            self.queue.drop(pod.uid)
        if before is not None and before.nominated not in ("", pod.nominated) and not pod.node_name:
            self._nomination_ended()

    def pod_gone(self, uid: str) -> None:
        """Take in that a pod is gone or has ended."""
        before = self.queue.find(uid)
        self.queue.drop(uid)
        self.gone(uid)
        if self.cache.drop_pod(uid):
            self.queue.cluster_changed()
        elif before is not None and before.nominated:
            self._nomination_ended()

    def _nomination_ended(self) -> None:
        if not self.settings.is_old:
            self.queue.cluster_changed()

    def pods_retained(self, uids: frozenset[str]) -> None:
        """Take in that no other pods exist."""
        self.queue.retain(uids)
        for uid in self.cache.placed_uids() - uids:
            self.pod_gone(uid)

    def node_changed(self, node: NodeInfo) -> None:
        """Take in a node's newest state."""
        if self.cache.set_node(node):
            self.queue.cluster_changed()

    def node_gone(self, name: str) -> None:
        """Take in that a node is gone."""
        self.cache.drop_node(name)

    def nodes_retained(self, uids: frozenset[str]) -> None:
        """Take in that no other nodes exist."""
        for node in [node for node in self.cache.nodes.values() if node.uid not in uids]:
            self.cache.drop_node(node.name)
