"""kube-scheduler's preemption: which less important pods end for one that fits nowhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.patches import merge
from gcushare_playground.apiserver.storage import Revision
from simulation.store import FINISHED

if TYPE_CHECKING:
    from simulation.scheduler import Scheduler


class CallError(Exception):
    """The extender did not answer a call, or with an error."""


class Preemption:
    """What a scheduler does of it."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    async def try_for(self, pod: Revision) -> None:
        """Let pods of a lower priority end on one node, where the extender agrees; those that are leaving as well.

        As kube-scheduler it waits while such pods are leaving the node that the pod is nominated for, and takes the
        nomination back where it has no one to propose.
        """
        nominated = pod.obj["status"].get("nominatedNodeName")
        if nominated and any(each.obj["metadata"].get("deletionTimestamp") for each in self._lower(pod, nominated)):
            return
        proposals: dict[str, Any] = {}
        for _, name in sorted(self._scheduler.nodes.objects):
            if victims := self._victims(pod, name):
                proposals[name] = {"Pods": [{"UID": uid} for uid in victims], "NumPDBViolations": 0}
        if not proposals:
            if nominated:
                self._nominate(pod, None)
            return
        body = b'{"Pod":%s,"NodeNameToMetaVictims":%s}' % (pod.raw, msgspec.json.encode(proposals))
        try:
            answer = (await self._scheduler.call("preempt", body)).get("NodeNameToMetaVictims") or {}
        except CallError:
            return
        if not answer or pod.uid not in self._scheduler.by_uid:
            return
        node = min(answer, key=lambda name: (len(answer[name]["Pods"] or ()), name))
        world = self._scheduler.world
        world.counts["preemptions"] += 1
        world.note(f"scheduler: {'/'.join(pod.key)} preempts {len(answer[node]['Pods'] or ())} pods on {node}")
        if not self._nominate(pod, node):
            return
        for victim in answer[node]["Pods"] or ():
            found = self._scheduler.by_uid.get(victim["UID"])
            if found is not None:
                world.users.delete(found.key, found.uid)

    def _victims(self, pod: Revision, node: str) -> list[str]:
        """The pods that kube-scheduler would end on a node: of the less important ones, those whose resources it needs.

        The more important and the older are the first to be spared. It counts a node's sums, not its cards, so none
        may be found where a card would have to be freed.
        """
        lower = self._lower(pod, node)
        ended = {each.uid for each in lower}
        if not self._scheduler.fits(pod, node, without=ended):
            return []
        for each in sorted(lower, key=lambda each: -each.obj["spec"].get("priority", 0)):
            ended.discard(each.uid)
            if not self._scheduler.fits(pod, node, without=ended):
                ended.add(each.uid)
        return [each.uid for each in lower if each.uid in ended]

    def _lower(self, pod: Revision, node: str) -> list[Revision]:
        """The pods of a node that are less important than another, and not over."""
        priority = pod.obj["spec"].get("priority", 0)
        return [
            each
            for each in self._scheduler.by_uid.values()
            if each.obj["spec"].get("nodeName") == node
            and each.obj["spec"].get("priority", 0) < priority
            and each.obj["status"].get("phase") not in FINISHED
        ]

    def _nominate(self, pod: Revision, node: str | None) -> bool:
        """Write for which node a pod is nominated; False where that fails, as when the pod is gone."""
        patch = {"status": {"nominatedNodeName": node}}
        try:
            self._scheduler.world.store.update("pods", pod.key, lambda doc: merge(doc, patch), "scheduler")
        except ApiFailure:
            return False
        return True
