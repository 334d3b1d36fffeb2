"""Carries a plan out: one eviction at a time, each after a new read of the cluster, none once the plan no longer holds.

Every prefix is safe. A pod is asked to go only through the Eviction API, so disruption budgets decide; only where the
rest of the plan still comes true with the cluster as it is now; and only once the pod before it runs again, so that at
most one is away at any time, also when a run is cut off and given again. Where its new place is, kube-scheduler
decides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from gcushare.cli.defragment.cluster_state import ClusterState, controller_of
from gcushare.core.errors import ConflictError, NotFoundError, Refused
from gcushare.core.nodes import PodRef
from gcushare.core.packing.defragment import Move, RoomPlan
from gcushare.core.wording import some_names
from gcushare.kube.client import KubeClient
from gcushare.kube.errors import EvictionRefusedError, UnknownOutcomeError

READ_EVERY_S = 1.0
"""Seconds between two reads while a pod ends and is replaced; each lists nodes and pods."""

REFUSED_S = 5.0
"""Between two requests that a budget refuses: what kubectl drain waits."""

MAX_NAMES = 10
"""Pods named in one sentence."""

ReadState = Callable[[], Awaitable[ClusterState]]


@dataclass(frozen=True, slots=True)
class Executed:
    """The outcome of a plan: the pods that moved, why it stopped early, and whether there is room now.

    ``newcomers`` came to the plan's node meanwhile; ``served`` are those of them that hold what room was made for.
    """

    moved: tuple[Move, ...]
    stopped: str
    has_room: bool
    newcomers: tuple[str, ...]
    served: tuple[str, ...]

    @property
    def is_reached(self) -> bool:
        """Whether there is room, or a pod that waited for it has taken it."""
        return self.has_room or bool(self.served)


class Executor:
    """Carries out one plan. ``report`` takes a sentence per step; ``patience_s`` bounds each wait."""

    def __init__(self, client: KubeClient, read: ReadState, report: Callable[[str], None], patience_s: float) -> None:
        self._client = client
        self._read = read
        self._report = report
        self._patience_s = patience_s

    async def read_when_settled(self) -> ClusterState:
        """Read the cluster for a plan, once no pod is being moved any more or patience has run out.

        The previous run may have been cut off after an eviction. A plan that is made before that pod runs again would
        evict a second pod, perhaps on another node.
        """
        deadline_s = asyncio.get_running_loop().time() + self._patience_s
        reported: tuple[str, ...] = ()
        while True:
            state = await self._read()
            if not state.moving or asyncio.get_running_loop().time() >= deadline_s:
                return state
            if state.moving != reported:
                reported = state.moving
                self._report(f"waiting for pods that end or were just made: {some_names(reported, MAX_NAMES)}")
            await asyncio.sleep(READ_EVERY_S)

    async def carry_out(self, plan: RoomPlan) -> Executed:
        """Evict the plan's pods in order; stop as soon as the rest of the plan no longer works.

        Raises:
            ForbiddenError: the caller may not evict pods.
            GcushareError: the API server does not answer; a pod may have been evicted.
        """
        moved: list[Move] = []
        stopped = ""
        first = await self._read()
        for position, move in enumerate(plan.moves):
            try:
                await self._move(move, replace(plan, moves=plan.moves[position:]))
            except Refused as reason:
                stopped = str(reason)
                break
            moved.append(move)
        now = await self._read()
        node = now.ledger.nodes.get(plan.node)
        before = first.ledger.nodes.get(plan.node)
        # Compare with what the node held before: a pod that waited for this room existed already.
        held = before.assignments if before is not None else {}
        new = [each for uid, each in node.assignments.items() if uid not in held] if node is not None else []
        wanted = plan.request
        served = [
            each
            for each in new
            if len(each.grants) == wanted.cards
            and all(g.whole == wanted.whole and (wanted.whole or g.units == wanted.units) for g in each.grants)
        ]
        return Executed(
            tuple(moved),
            stopped,
            node is not None and node.known and node.fits(plan.request),
            tuple(sorted(str(each.pod) for each in new)),
            tuple(sorted(str(each.pod) for each in served)),
        )

    async def _move(self, move: Move, rest: RoomPlan) -> None:
        before = await self._read()
        before.check(rest)
        controller = controller_of(before.pods[move.pod.uid])
        await self._evict(move)
        self._report(f"evicted {move.pod} from {move.source}")
        deadline_s = asyncio.get_running_loop().time() + self._patience_s
        enough = before.running()[controller]
        while True:
            now = await self._read()
            if move.pod.uid not in now.pods and now.running()[controller] >= enough:
                return
            if asyncio.get_running_loop().time() >= deadline_s:
                is_gone = move.pod.uid not in now.pods
                what = "no pod runs in its place" if is_gone else "it has not ended"
                raise Refused(f"pod {move.pod} was evicted, and after {self._patience_s:g} s {what}")
            await asyncio.sleep(READ_EVERY_S)

    async def _evict(self, move: Move) -> None:
        """Request the eviction until a budget allows it or patience runs out.

        Raises:
            Refused: the budget never allowed it, or the pod is gone.
        """
        pod = PodRef(move.pod.uid, move.pod.namespace, move.pod.name)
        deadline_s = asyncio.get_running_loop().time() + self._patience_s
        may_be_evicted = False
        while True:
            try:
                await self._client.evict_pod(pod)
            except (ConflictError, NotFoundError) as error:
                if may_be_evicted:
                    return
                raise Refused(f"pod {move.pod} is gone, and not by us: {error}; plan again") from error
            except EvictionRefusedError as error:
                if asyncio.get_running_loop().time() + REFUSED_S > deadline_s:
                    raise Refused(f"pod {move.pod} stays: {error}") from error
                self._report(f"waiting: {error}")
                await asyncio.sleep(REFUSED_S)
            except UnknownOutcomeError:
                # Asking again for the same uid is safe: an evicted pod is ending, or gone, which the next answer says.
                may_be_evicted = True
                if asyncio.get_running_loop().time() + READ_EVERY_S > deadline_s:
                    raise
                await asyncio.sleep(READ_EVERY_S)
            else:
                return
