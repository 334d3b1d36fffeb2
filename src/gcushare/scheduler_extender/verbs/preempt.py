"""preempt: keep the candidate nodes where the scheduler's victims free enough cards, with the victims needed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace

from gcushare.core.errors import Refused
from gcushare.core.log_fields import fields
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.kept_room import NO_NOMINEES, RoomAfterNominees, fits_after_nominees
from gcushare.core.preemption.victims import choose_victims
from gcushare.core.requests import CardRequest
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.request_metrics import VerbAnswer
from gcushare.wire.extender_preempt import PreemptArguments, Proposal, Victims, encode_victims

logger = logging.getLogger(__name__)

MAX_VICTIMS = 65_536
"""Victims considered in one call: 110 pods on each of 500 nodes, which the scheduler proposes of 5,000."""

MAX_VICTIMS_OF_NODE = 256
"""Victims considered on one node, in one step of two or three milliseconds. A kubelet runs 110 pods by default."""

_VICTIMS_PER_TURN = 64
"""About half a millisecond."""


class PreemptService:
    """Answers preempt for one vendor."""

    def __init__(self, state: VendorState) -> None:
        self._state = state

    async def preempt(self, arguments: PreemptArguments, request: SchedulingRequest | None) -> VerbAnswer:
        """Answer which victims must end on each node that stays; yields to other calls in between.

        The scheduler needs only one node. So if very many victims are proposed, the nodes with most of them are left
        out.

        Raises:
            RemoteContractError: victims cannot be read.
            Refused: nodes were left out, and no other node is possible.
        """
        proposals = arguments.proposals
        if request is None:
            unchanged = {name: (found.uids, found.violations) async for name, found in _read_all(proposals)}
            return VerbAnswer(encode_victims(unchanged), "not_asking", self._state.vendor.name)
        kept, left_out = await self._weigh(proposals, request)
        if left_out:
            text = (
                f"{left_out} of {len(proposals)} proposed nodes were left out of preemption for pod {request.pod}: at "
                f"most {MAX_VICTIMS} victims in all and {MAX_VICTIMS_OF_NODE} of a node are weighed"
            )
            if not kept:
                raise Refused(f"{text}; ending those of the others would not make room")
            logger.info("preempt left nodes out %s", fields(pod=request.pod, reason=text))
        self._state.nominations.expect(request, {name: uids for name, (uids, _) in kept.items()})
        return VerbAnswer(encode_victims(kept), "fits" if kept else "refused", self._state.vendor.name)

    async def _weigh(
        self, proposals: dict[str, Proposal], request: SchedulingRequest
    ) -> tuple[dict[str, tuple[list[str], int]], int]:
        """Choose victims on each node, the shortest proposals first, and count the nodes that were left out."""
        kept: dict[str, tuple[list[str], int]] = {}
        weighed = left_out = 0
        nominations = self._state.nominations
        ahead = nominations.find_ahead(request.pod)
        async for name, victims in _read_all(proposals):
            uids = victims.uids
            if weighed + len(uids) > MAX_VICTIMS or len(uids) > MAX_VICTIMS_OF_NODE:
                left_out += 1
                continue
            weighed += len(uids)
            if request.cards.whole and name in self._state.nodes.whole_elsewhere:
                kept[name] = uids, victims.violations  # kube-scheduler's own count of these cards is all there is.
                continue
            node = self._state.ledger.nodes.get(name)
            if node is None:
                continue
            room = nominations.find_room(name, ahead.get(name, ()))
            chosen = reduce_victims(node, request.cards, uids, violations=victims.violations, room=room)
            if chosen is not None:
                kept[name] = chosen
        return kept, left_out


def reduce_victims(
    node: NodeState, request: CardRequest, uids: list[str], *, violations: int, room: RoomAfterNominees = NO_NOMINEES
) -> tuple[list[str], int] | None:
    """The victims that must end on one node, and how many budgets they break at most; None if all are not enough.

    Victims without cards of this vendor are kept in the answer: the scheduler needs them for CPU, ports or other
    resources. For the same reason the proposal is answered unchanged if no pod has to end for the cards.

    The scheduler proposes pods again that are leaving. What they hold comes free anyway. So they are named only if no
    other pod has to end: then the pod waits for the room as a nominee. An answer without victims would be an error to
    the scheduler. So if the leaving pods are not among those proposed, victims are chosen as if those stayed; if that
    needs no victim either, the node is left out.

    The protocol has the number of victims that break a budget, not their names. If it is none or all, they are known.
    Otherwise budgets are ignored, and priority, number and age decide. The chosen set may then break more budgets than
    another one, and the number answered is the most that it can break.
    """
    breaks_all = 0 < len(uids) <= violations
    holders = {uid: node.assignments[uid] for uid in uids if uid in node.assignments}
    pods = [held.pod for held in holders.values()]
    chosen = choose_victims(node, request, pods, room=room, count_first=breaks_all)
    if chosen == () and fits_after_nominees(node, request, room.left):
        return uids, violations
    if chosen == () and room.leaving.isdisjoint(uids) and len(holders) == len(uids):
        room = replace(room, leaving=frozenset())
        chosen = choose_victims(node, request, pods, room=room, count_first=breaks_all)
    if chosen is None:
        return None
    needed = {victim.uid for victim in chosen} or room.leaving
    kept = [uid for uid in uids if uid not in holders or uid in needed]
    return (kept, min(violations, len(kept))) if kept else None


async def _read_all(proposals: dict[str, Proposal]) -> AsyncIterator[tuple[str, Victims]]:
    """Read the victims node by node, the shortest proposal first, and yield to other calls in between."""
    turns = CooperativeYield(_VICTIMS_PER_TURN)
    for name, proposal in sorted(proposals.items(), key=lambda item: item[1].size):
        victims = proposal.read()
        yield name, victims
        await turns.after(1 + len(victims.uids))
