"""preempt: of the candidate nodes those where ending less important pods frees cards, with the pods that must end.

All candidates are judged by the ledger. The best few are read from the API server before they are named, because the
ledger knows neither disruption budgets nor the other resources of pods and nodes.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass

from gcushare.core.assignments import PodRef
from gcushare.core.errors import Refused
from gcushare.core.log_fields import fields
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.choice import Choice, Proposed
from gcushare.core.preemption.victims import Rank, choose_victims, rank_victims
from gcushare.kube.client import KubeClient
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.state.nominations import Nominee
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.occupancy_reader import OccupancyReader
from gcushare.scheduler_extender.verbs.request_metrics import VerbAnswer
from gcushare.wire.extender_preempt import PreemptArguments, Proposal, encode_victims

logger = logging.getLogger(__name__)

MAX_VICTIMS = 65_536
"""Victims considered in one call: 110 pods on each of 500 nodes, which the scheduler proposes of 5,000."""

MAX_VICTIMS_OF_NODE = 256
"""Victims considered on one node, in one step of two or three milliseconds. A kubelet runs 110 pods by default."""

READ_AT_ONCE = 4
"""Nodes read and named together: kube-scheduler needs one, and another extender may refuse some."""

READ_FOR_S = 2.0
"""After this long no further nodes are read: kube-scheduler waits five seconds for the answer."""

LEAST_SAMPLE = 100
"""kube-scheduler asks about a sample of the nodes only if this many are possible (its ``minFeasibleNodesToFind``)."""

_VICTIMS_PER_TURN = 64
"""About half a millisecond."""


@dataclass(frozen=True, slots=True)
class _JudgedNode:
    """A node where less important pods hold enough of the cards; ``cost`` orders candidates, the best first."""

    node: str
    proposed: Proposed
    cost: tuple[int, Rank]


class PreemptService:
    """Answers preempt for one vendor. ``put_off`` is called with each pod for which none ends, because it fits now."""

    def __init__(
        self, state: VendorState, client: KubeClient, put_off: Callable[[SchedulingRequest], None] = lambda _: None
    ) -> None:
        self._state = state
        self._client = client
        self._put_off = put_off
        self._reading = asyncio.Lock()
        """One call reads at a time, so that forged calls cannot load the API server."""

    async def preempt(self, arguments: PreemptArguments, request: SchedulingRequest | None) -> VerbAnswer:
        """Answer which victims must end on the best nodes; yields to other calls in between.

        The scheduler needs only one node. So if very many victims are proposed, the nodes with most of them are left
        out.

        Raises:
            RemoteContractError: victims cannot be read.
            Refused: nodes were left out, and no other node is possible.
            GcushareError: the API server does not answer.
        """
        proposals = arguments.proposals
        if request is None:
            unchanged = {name: found async for name, found in _read_all(proposals)}
            return VerbAnswer(encode_victims(unchanged), "not_asking", self._state.vendor.name)
        candidates, left_out = await self._judge(proposals, request)
        kept: dict[str, Proposed] = {}
        if candidates and (node := self._find_room_now(request, proposals)):
            self._state.put_off.add(request.pod.uid)
            self._put_off(request)
            logger.info("preempt names no pods: a node has room now %s", fields(pod=request.pod, node=node))
            return VerbAnswer(encode_victims({}), "refused", self._state.vendor.name)
        if candidates:
            async with self._reading:
                kept = await self._choose_best(candidates, request)
        if left_out:
            text = (
                f"{left_out} of {len(proposals)} proposed nodes were left out of preemption for pod {request.pod}: at "
                f"most {MAX_VICTIMS} victims in all and {MAX_VICTIMS_OF_NODE} of a node are weighed"
            )
            if not kept:
                raise Refused(f"{text}; ending those of the others would not make room")
            logger.info("preempt left nodes out %s", fields(pod=request.pod, reason=text))
        self._state.nominations.expect(request, {name: found.uids for name, found in kept.items()})
        return VerbAnswer(encode_victims(kept), "fits" if kept else "refused", self._state.vendor.name)

    def _find_room_now(self, request: SchedulingRequest, proposals: Collection[str]) -> str | None:
        """A node that fits as things are: it got room after filter was asked, or filter was asked about a sample.

        Found once for a pod, because the other resources of a node that filter was not asked about may not do.
        """
        state, uid = self._state, request.pod.uid
        asked = state.refused_on.get(uid)
        if asked is None or uid in state.put_off or request.group:
            return None
        places = state.places if len(asked) >= LEAST_SAMPLE else {}
        closed = state.nominations.closed_to(request)
        for name in state.indexes.get(request.shape).fitting:
            place = None if name in proposals else places.get(name)
            if name not in closed and (name in asked or (place and not request.rules.find_obstacle(place))):
                return name
        return None

    async def _judge(self, proposals: dict[str, Proposal], request: SchedulingRequest) -> tuple[list[_JudgedNode], int]:
        """Find the nodes where ending pods frees cards enough, the best first, and count those that were left out."""
        found: list[_JudgedNode] = []
        weighed = left_out = 0
        ahead = self._state.nominations.find_ahead(request.pod)
        async for name, victims in _read_all(proposals):
            node = self._state.ledger.nodes.get(name)
            able = [] if node is None else self._find_able(node, request.pod, victims.uids)
            count = max(len(able), len(victims.uids))
            if len(victims.uids) > MAX_VICTIMS_OF_NODE or weighed + count > MAX_VICTIMS:
                left_out += 1
                continue
            weighed += count
            if request.cards.whole and name in self._state.nodes.whole_elsewhere:
                found.append(_JudgedNode(name, victims, (victims.violations, rank_victims([request.pod]))))
                continue
            if node is None:
                continue
            room = self._state.nominations.find_room(name, ahead.get(name, ()), request.cards.apart)
            chosen = choose_victims(node, request.cards, able, room=room)
            if chosen is not None:
                rank = rank_victims(chosen or [pod for pod in able if pod.uid in victims.uids])
                found.append(_JudgedNode(name, victims, (victims.violations, rank)))
        return sorted(found, key=lambda each: each.cost), left_out

    def _find_able(self, node: NodeState, preemptor: PodRef, proposed: Collection[str]) -> list[PodRef]:
        """The pods with cards of a node that may end: those proposed, and of the others the least important."""
        bound = self._state.bound
        able = {uid: held.pod for uid, held in node.assignments.items() if held.pod.priority < preemptor.priority}
        pods = [able.pop(uid) for uid in proposed if uid in able]
        lower = [pod for uid, pod in able.items() if uid in bound]
        if len(pods) + len(lower) > MAX_VICTIMS_OF_NODE:
            lower.sort(key=lambda pod: rank_victims([pod]))
        return pods + lower[: MAX_VICTIMS_OF_NODE - len(pods)]

    async def _choose_best(self, candidates: Sequence[_JudgedNode], request: SchedulingRequest) -> dict[str, Proposed]:
        """Read candidates, the best first, until on some of them pods may end."""
        reader = await OccupancyReader.open(self._client, self._state.vendor, request.pod)
        now_s = asyncio.get_running_loop().time
        until_s = now_s() + READ_FOR_S
        for start in range(0, len(candidates), READ_AT_ONCE):
            if now_s() > until_s:
                unread = len(candidates) - start
                logger.info("preempt left nodes unread %s", fields(pod=request.pod, nodes=unread, after_s=READ_FOR_S))
                break
            few = candidates[start : start + READ_AT_ONCE]
            chosen = await asyncio.gather(*(self._choose(each, reader, request) for each in few))
            if kept := {each.node: found for each, found in zip(few, chosen, strict=True) if found is not None}:
                return kept
        return {}

    async def _choose(
        self, candidate: _JudgedNode, reader: OccupancyReader, request: SchedulingRequest
    ) -> Proposed | None:
        name, nominations = candidate.node, self._state.nominations
        if request.cards.whole and name in self._state.nodes.whole_elsewhere:
            return candidate.proposed  # kube-scheduler's own count of these cards is all there is.

        def find_ahead() -> Sequence[Nominee]:
            return nominations.find_ahead(request.pod).get(name, ())

        here = await reader.read(name, [each.pod for each in find_ahead()])
        node = self._state.ledger.nodes.get(name)
        if node is None or here is None:
            return None
        room = nominations.find_room(name, find_ahead(), request.cards.apart)
        found = Choice(node, request.pod, request.cards, here, candidate.proposed, room).make()
        if found is not None:
            proposed = candidate.proposed.uids
            others = len(set(found.uids).difference(proposed))
            facts = fields(pod=request.pod, node=name, proposed=len(proposed), named=len(found.uids), others=others)
            logger.info("preempt names pods %s", facts)
        return found


async def _read_all(proposals: dict[str, Proposal]) -> AsyncIterator[tuple[str, Proposed]]:
    """Read the victims node by node, the shortest proposal first, and yield to other calls in between."""
    turns = CooperativeYield(_VICTIMS_PER_TURN)
    for name, proposal in sorted(proposals.items(), key=lambda item: item[1].size):
        victims = proposal.read()
        yield name, victims
        await turns.after(1 + len(victims.uids))
