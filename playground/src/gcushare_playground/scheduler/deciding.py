"""One scheduling cycle: which node a pod goes to, or in which words it goes nowhere.

Source: ``schedulePod`` in ``pkg/scheduler/schedule_one.go``. Unlike the original every node is looked at, however many
there are.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from gcushare_playground.scheduler.cache import NodeView
from gcushare_playground.scheduler.claims import ClaimsView
from gcushare_playground.scheduler.extender import MAX_SCORE as MAX_EXTENDER_SCORE
from gcushare_playground.scheduler.extender import Extender, ExtenderError
from gcushare_playground.scheduler.fitting import Refusal, find_refusal, summarise
from gcushare_playground.scheduler.objects import PodInfo
from gcushare_playground.scheduler.scoring import MAX_SCORE, score

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class NoFit:
    """Why a pod fits nowhere: a refusal per node, as far as somebody gave a reason."""

    node_count: int
    refusals: dict[str, Refusal] = field(default_factory=dict)
    has_claims: bool = False

    @property
    def message(self) -> str:
        if not self.node_count:
            return "no nodes available to schedule pods"
        return summarise(self.refusals.values(), self.node_count)

    @property
    def victimless(self) -> str:
        """How preemption says that it found no pods to end."""
        open_ = sum(not each.is_final for each in self.refusals.values())
        results = [Refusal(("No preemption victims found for incoming pod",))] * open_
        results += [Refusal(("Preemption is not helpful for scheduling",))] * (self.node_count - open_)
        return summarise(results, self.node_count)

    def without_preemption(self, why: str) -> str:
        """The message where no other pods end for the pod."""
        claims = "still not schedulable" if self.has_claims else "no new claims to deallocate"
        return f"{self.message} {claims}, preemption: {why}" if self.node_count else self.message


@dataclass(frozen=True, slots=True)
class Decider:
    """The filters, the extenders and the scores, applied in kube-scheduler's order."""

    extenders: Sequence[Extender]
    ignored: frozenset[str]
    rng: random.Random

    async def choose(self, pod: PodInfo, views: Sequence[NodeView], claims: ClaimsView | None = None) -> str | NoFit:
        """Return the chosen node's name, or why there is none; ``claims`` are those of a pod that has some.

        Raises:
            ExtenderError: an extender that must not be ignored failed.
        """
        found = await self._find(pod, views, claims)
        if isinstance(found, NoFit):
            return found
        if len(found) == 1:
            return found[0].name
        return await self._best(pod, found)

    async def _find(self, pod: PodInfo, views: Sequence[NodeView], claims: ClaimsView | None) -> list[NodeView] | NoFit:
        refusals = {view.name: refusal for view in views if (refusal := find_refusal(pod, view, self.ignored))}
        for view in views:
            if claims is not None and view.name not in refusals and claims.allocate(view.name) is None:
                refusals[view.name] = Refusal(("cannot allocate all claims",), is_final=True)
        fitting = [view for view in views if view.name not in refusals]
        for extender in self.extenders:
            if not fitting:
                break
            if not extender.is_interested(pod):
                continue
            try:
                answer = await extender.filter(pod, [view.node for view in fitting])
            except ExtenderError as error:
                if not extender.settings.ignorable:
                    raise
                logger.warning("extender skipped url=%s error=%s", extender.settings.url_prefix, error)
                continue
            refusals |= {name: Refusal((reason,)) for name, reason in answer.failed.items()}
            refusals |= {name: Refusal((reason,), is_final=True) for name, reason in answer.unresolvable.items()}
            by_name = {view.name: view for view in fitting}
            fitting = [by_name[name] for name in answer.names]
        return fitting or NoFit(len(views), refusals, has_claims=claims is not None)

    async def _best(self, pod: PodInfo, views: Sequence[NodeView]) -> str:
        totals = {view.name: score(pod, view) for view in views}
        for extender in self.extenders:
            if not extender.is_interested(pod):
                continue
            try:
                scores = await extender.prioritize(pod, [view.node for view in views])
            except ExtenderError as error:
                # As in the original: a failed prioritize costs its opinion, never the cycle.
                logger.warning("no scores from extender url=%s error=%s", extender.settings.url_prefix, error)
                continue
            for name, amount in scores.items():
                if name in totals:
                    totals[name] += amount * MAX_SCORE // MAX_EXTENDER_SCORE
        highest = max(totals.values())
        return self.rng.choice(sorted(name for name, total in totals.items() if total == highest))
