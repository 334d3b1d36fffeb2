"""Evict pods that use more than their grant, and those that are idle, if the admin asked for it: one at a time, with a
pause between two.

`core.over_use` decides. This module collects its inputs after each reading of the cards, and calls the Eviction API for
the pod that it names. A pod over its grant goes before an idle one: its neighbour waits.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace

from gcushare.core.assignments import PodRef
from gcushare.core.errors import ConflictError, ForbiddenError, GcushareError, NotFoundError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.core.over_use.eviction import Decision, Evictable, Offender, decide
from gcushare.core.over_use.idleness import IdlePod, decide_idle
from gcushare.kube.client import KubeClient
from gcushare.kube.errors import EvictionRefusedError
from gcushare.node.api_server import Announcer
from gcushare.node.over_use.idle_watch import IdleWatch
from gcushare.node.over_use.over_use_settings import Action, OverUseSettings
from gcushare.node.over_use.watch import OverUseWatch
from gcushare.node.pods import NodePods
from gcushare.wire.pods import is_mirror

logger = logging.getLogger(__name__)

OVERDUE_S = 10.0
"""How long a pod may outlive its termination grace period before its memory is no longer expected to become free."""
REFUSED_S = 300.0
"""After a disruption budget or the API server refused an eviction, the pod is left alone this long: another one may be
chosen, so that no pod protects others by what its author can have refused."""


class Outcome(enum.Enum):
    """The result of a decision to evict; the values are label values of the metric."""

    EVICTED = "evicted"
    REFUSED = "refused"
    """A disruption budget does not allow it now."""
    GONE = "gone"
    FAILED = "failed"
    DRY_RUN = "rehearsed"


class EvictionCause(enum.Enum):
    """Why a pod is evicted."""

    OVER_USE = "over-use"
    IDLE = "idle"


_REASONS = {
    (EvictionCause.OVER_USE, Outcome.EVICTED): "OverUseEvicted",
    (EvictionCause.OVER_USE, Outcome.DRY_RUN): "OverUseWouldEvict",
    (EvictionCause.OVER_USE, Outcome.REFUSED): "OverUseEvictionRefused",
    (EvictionCause.IDLE, Outcome.EVICTED): "IdleEvicted",
    (EvictionCause.IDLE, Outcome.REFUSED): "IdleEvictionRefused",
}
"""Of the Events about an eviction. An idle pod is rehearsed by its first Event: in a dry run none is chosen."""


@dataclass(eq=False)
class Evictor:
    """Decides after each reading of the cards (``on_poll``) and evicts in ``run``, its owner task.

    ``decision`` is the newest one on pods over their grant, ``idle_decision`` that on idle ones. ``last`` has the
    result of the last eviction of each cause as text. ``problem`` is why the API server denied one; "" if it did not,
    or evicted a pod since. ``longest_wait_s`` bounds how much of a pod's termination grace period counts.
    """

    settings: OverUseSettings
    watch: OverUseWatch
    idle: IdleWatch | None
    pods: NodePods
    client: KubeClient
    announcer: Announcer
    _: KW_ONLY
    longest_wait_s: float
    clock: Callable[[], float]
    wall_clock_s: Callable[[], float]

    def __post_init__(self) -> None:
        self._next_at_s = float("-inf")
        self._refused: dict[str, tuple[float, str]] = {}
        self._chosen: tuple[EvictionCause, Evictable, str] | None = None
        self._wake = asyncio.Event()
        self.outcomes: Counter[tuple[EvictionCause, Outcome]] = Counter()
        self.decision: Decision[Offender] = Decision(None, "", {})
        self.idle_decision: Decision[IdlePod] = Decision(None, "", {})
        self.last = dict.fromkeys(EvictionCause, "")
        self.problem = ""

    def on_poll(self) -> None:
        """Decide on the newest reading; nothing happens while an eviction is under way."""
        if self._chosen is not None:
            return
        now_s = self.clock()
        self._refused = {uid: found for uid, found in self._refused.items() if found[0] > now_s}
        left_s = self._next_at_s - now_s
        pausing = f"the next pod may be evicted in {left_s:.0f}s" if left_s > 0 else ""
        if self.settings.over_use is Action.EVICT:
            self.decision = decide(
                self._offenders(),
                self.watch.cards,
                self.settings.over_use_when,
                self.settings.over_use_exempt,
                pausing=pausing,
            )
        if self.idle is not None and self.idle.is_evicting:
            refused = {uid: why for uid, (_, why) in self._refused.items()}
            pods = [replace(pod, refused_lately=refused.get(uid, "")) for uid, pod in self.idle.idle.items()]
            self.idle_decision = decide_idle(pods, self.idle.rules, self.idle.exempt, pausing=pausing)
        if not self._refused:
            self.problem = ""
        if (over := self.decision.victim) is not None:
            self._choose(EvictionCause.OVER_USE, over, self.decision.reason)
        elif (idle := self.idle_decision.victim) is not None:
            self._choose(EvictionCause.IDLE, idle, self.idle_decision.reason)

    def _choose(self, cause: EvictionCause, victim: Evictable, reason: str) -> None:
        self._chosen = (cause, victim, reason)
        self._wake.set()

    async def run(self) -> None:
        """Evict the pods that were chosen, until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if self._chosen is not None:
                await self._carry_out(*self._chosen)
            self._chosen = None

    async def _carry_out(self, cause: EvictionCause, victim: Evictable, reason: str) -> None:
        pod = victim.pod
        outcome, text = await self._evict(cause, pod, reason)
        self.outcomes[cause, outcome] += 1
        self.last[cause] = text
        self._next_at_s = self.clock() + (0.0 if outcome is Outcome.GONE else self.settings.over_use_pause)
        logger.warning("%s: pod %s %s", cause.value, text, fields(pod=pod, uid=pod.uid))
        if event := _REASONS.get((cause, outcome)):
            words = f"{reason}; {text}" if outcome is Outcome.REFUSED else text
            self.announcer.about_pod(pod, event, words, warning=True)

    async def _evict(self, cause: EvictionCause, pod: PodRef, reason: str) -> tuple[Outcome, str]:
        """Evict the pod, unless it is a dry run; returns what came of it, and that in words."""
        if self.settings.dry_run:
            return Outcome.DRY_RUN, f"would be evicted: {reason} (dry run)"
        try:
            await self.client.evict_pod(pod)
        except (ConflictError, NotFoundError) as error:
            return Outcome.GONE, f"gone before it was evicted: {error}"
        except EvictionRefusedError as error:
            # The server's Retry-After is about one request; when the budget allows an eviction is not known.
            self._refused[pod.uid] = (self.clock() + REFUSED_S, f"its eviction was refused a moment ago: {error}")
            return Outcome.REFUSED, f"not evicted: {error}"
        except GcushareError as error:
            if not isinstance(error, RetryableError):
                self._refused[pod.uid] = (self.clock() + REFUSED_S, f"its eviction was denied a moment ago: {error}")
                whose = "over their grant" if cause is EvictionCause.OVER_USE else "that are idle"
                self.problem = f"pods {whose} cannot be evicted: {_remedy(error)}"
            return Outcome.FAILED, f"not evicted: {_remedy(error)}"
        self.problem = ""
        return Outcome.EVICTED, f"evicted: {reason}"

    def _offenders(self) -> list[Offender]:
        found, pods = [], self.pods.everyone
        for uid, cards in self.watch.over.items():
            entry = pods[uid]
            _, refused = self._refused.get(uid, (0.0, ""))
            # A pod's termination grace period counts up to the admin's limit.
            ended_s = entry.overdue_since_s(self.longest_wait_s)
            for index, over in cards.items():
                figures = self.watch.figures.get((uid, index), over.figures)
                found.append(
                    Offender(
                        entry.ref,
                        index,
                        figures,
                        ending=entry.ends_at_s is not None,
                        is_overdue=ended_s is not None and self.wall_clock_s() > ended_s + OVERDUE_S,
                        is_static=is_mirror(entry.annotations),
                        refused_lately=refused,
                    )
                )
        return found


def _remedy(error: GcushareError) -> str:
    if isinstance(error, ForbiddenError):
        return f"{error}; give the program the right to create pods/eviction, as action: evict of its chart does"
    return str(error)
