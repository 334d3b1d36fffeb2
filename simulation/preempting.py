"""kube-scheduler's preemption: which less important pods end for one that fits nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.patches import merge
from gcushare_playground.scheduler.extender import ExtenderError
from gcushare_playground.scheduler.objects import PodInfo

if TYPE_CHECKING:
    from simulation.scheduler import SimulatedCore


class Preemption:
    """What a scheduler does of it."""

    def __init__(self, scheduler: SimulatedCore) -> None:
        self._scheduler = scheduler

    async def try_for(self, pod: PodInfo) -> None:
        """Let pods of a lower priority end on one node, where the extender agrees; those that are leaving as well.

        As kube-scheduler it waits while such pods are leaving the node that the pod is nominated for, and takes the
        nomination back where it has no one to propose.
        """
        if pod.nominated and any(each.is_deleting for each in self._lower(pod, pod.nominated)):
            return
        scheduler = self._scheduler
        proposals = {name: victims for name in sorted(scheduler.cache.nodes) if (victims := self._victims(pod, name))}
        if not proposals:
            if pod.nominated:
                self._nominate(pod, None)
            return
        try:
            answer = await scheduler.extender.preempt(pod, proposals)
        except ExtenderError:
            return
        if not answer or scheduler.queue.find(pod.uid) is None:
            return
        node = min(answer, key=lambda name: (len(answer[name]), name))
        world = scheduler.world
        world.counts["preemptions"] += 1
        world.note(f"scheduler: {pod.full_name} preempts {len(answer[node])} pods on {node}")
        if not self._nominate(pod, node):
            return
        for uid in answer[node]:
            found = scheduler.cache.bound.get(uid)
            if found is not None:
                world.users.delete((found.namespace, found.name), uid)

    def _victims(self, pod: PodInfo, node: str) -> list[str]:
        """The pods that kube-scheduler would end on a node: of the less important ones, those whose resources it needs.

        The more important and the older are the first to be spared. It counts a node's sums, not its cards, so none
        may be found where a card would have to be freed.
        """
        lower = self._lower(pod, node)
        ended = {each.uid for each in lower}
        if not self._scheduler.fits(pod, node, without=ended):
            return []
        for each in sorted(lower, key=lambda each: -each.priority):
            ended.discard(each.uid)
            if not self._scheduler.fits(pod, node, without=ended):
                ended.add(each.uid)
        return [each.uid for each in lower if each.uid in ended]

    def _lower(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """The pods of a node that are less important than another, and not over."""
        return [
            each for each in self._scheduler.cache.bound.values()
            if each.node_name == node and each.priority < pod.priority
        ]  # fmt: skip

    def _nominate(self, pod: PodInfo, node: str | None) -> bool:
        """Write for which node a pod is nominated; False where that fails, as when the pod is gone."""
        patch = {"status": {"nominatedNodeName": node}}
        store = self._scheduler.world.store
        try:
            store.update("pods", (pod.namespace, pod.name), lambda doc: merge(doc, patch), "scheduler")
        except ApiFailure:
            return False
        return True
