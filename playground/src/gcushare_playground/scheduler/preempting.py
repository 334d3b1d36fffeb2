"""Which pods of lower priority would have to end so that a pod fits; asked of the extenders before anybody ends.

Source: ``pkg/scheduler/framework/preemption`` and DefaultPreemption. As there, only the scheduler's own filters are
tried out on each node, so a node refused by an extender alone, with room by the sums, yields no victims. Pod disruption
budgets are not modelled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gcushare_playground.scheduler.cache import NodeView
from gcushare_playground.scheduler.deciding import NoFit
from gcushare_playground.scheduler.extender import Extender, ExtenderError
from gcushare_playground.scheduler.fitting import Refusal, judge, summarise
from gcushare_playground.scheduler.objects import PodInfo

NO_VICTIMS = Refusal(("No preemption victims found for incoming pod",))
NOT_HELPFUL = Refusal(("Preemption is not helpful for scheduling",))


@dataclass(frozen=True, slots=True)
class Preemption:
    """The node that is made free and the pods that end there; without a node, ``message`` says why.

    ``is_under_way``: victims of an earlier attempt are still ending.
    """

    node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    message: str = ""
    is_under_way: bool = False


@dataclass(frozen=True, slots=True)
class Preemptor:
    """Finds victims."""

    extenders: Sequence[Extender]
    ignored: frozenset[str]

    async def find(self, pod: PodInfo, views: Sequence[NodeView], no_fit: NoFit, nominated: str | None) -> Preemption:
        """Return whom to end for a pod that fits nowhere.

        Raises:
            ExtenderError: an extender that must not be ignored failed, or proposed victims that do not exist.
        """
        if not pod.may_preempt:
            return Preemption(message="not eligible due to preemptionPolicy=Never.")
        if _are_ending(pod, views, nominated):
            message = "not eligible due to a terminating pod on the nominated node."
            return Preemption(message=message, is_under_way=True)
        proposals: dict[str, Sequence[PodInfo]] = {}
        failures: list[Refusal] = []
        for view in views:
            refusal = no_fit.refusals.get(view.name)
            if refusal is not None and refusal.is_final:
                failures.append(NOT_HELPFUL)
            elif victims := self._victims_on(pod, view):
                proposals[view.name] = victims
            else:
                failures.append(NO_VICTIMS)
        if proposals:
            proposals = await self._ask_extenders(pod, proposals, views)
        if not proposals:
            return Preemption(message=summarise(failures, len(views)))
        node = min(proposals, key=lambda name: _cost(name, proposals[name]))
        return Preemption(node, tuple(proposals[node]))

    def _victims_on(self, pod: PodInfo, view: NodeView) -> list[PodInfo]:
        """Return the fewest important pods whose end makes room: all of lower priority, minus those that may stay."""
        lower = [placed for placed in view.pods if placed.priority < pod.priority]
        if not lower:
            return []
        emptied = view.without(lower)
        if judge(pod, emptied, self.ignored) is not None:
            return []
        victims: list[PodInfo] = []
        for candidate in sorted(lower, key=lambda each: (-each.priority, each.created, each.full_name)):
            spared = emptied.with_pods([candidate])
            if judge(pod, spared, self.ignored) is None:
                emptied = spared
            else:
                victims.append(candidate)
        return victims

    async def _ask_extenders(
        self, pod: PodInfo, proposals: Mapping[str, Sequence[PodInfo]], views: Sequence[NodeView]
    ) -> dict[str, Sequence[PodInfo]]:
        on_node = {view.name: {placed.uid: placed for placed in view.pods} for view in views}
        current = dict(proposals)
        for extender in self.extenders:
            if not current or not extender.settings.preempt_verb or not extender.is_interested(pod):
                continue
            try:
                answer = await extender.preempt(pod, current)
                current = {name: _resolve(extender, name, victims.uids, on_node) for name, victims in answer.items()}
            except ExtenderError:
                if not extender.settings.ignorable:
                    raise
        return current


def _resolve(
    extender: Extender, node: str, uids: Sequence[str], on_node: Mapping[str, Mapping[str, PodInfo]]
) -> list[PodInfo]:
    if not uids:
        raise ExtenderError(f'expected at least one victim pod on node "{node}"')
    for uid in uids:
        if uid not in on_node.get(node, {}):
            raise ExtenderError(
                f"extender: {extender.settings.url_prefix} claims to preempt pod (UID: {uid}) on node: {node}, but the "
                "pod is not found on that node"
            )
    return [on_node[node][uid] for uid in uids]


def _are_ending(pod: PodInfo, views: Sequence[NodeView], nominated: str | None) -> bool:
    """Say whether pods of lower priority are being deleted on the node kept for the pod."""
    placed = (each for view in views if view.name == nominated for each in view.pods)
    return any(each.is_deleting and each.priority < pod.priority for each in placed)


def _cost(node: str, victims: Sequence[PodInfo]) -> tuple[int, int, int, str]:
    """Order candidates: lowest highest priority, then lowest sum (shifted, as all count), then fewest pods."""
    priorities = [victim.priority for victim in victims]
    return max(priorities), sum(priority + 2**31 for priority in priorities), len(victims), node
