"""preempt: keep the candidate nodes where the scheduler's victims free cards enough, and only the victims needed."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from dataclasses import replace

from gcushare.core.errors import Refused
from gcushare.core.nodes import NodeState
from gcushare.core.preemption.nominations import NO_NOMINEES, RoomAfterNominees, fits_after_nominees
from gcushare.core.preemption.victims import choose_victims
from gcushare.core.requests import CardRequest
from gcushare.runtime.logs import fields
from gcushare.scheduler_extender.cooperative_yield import CooperativeYield
from gcushare.scheduler_extender.state.scheduling_request import SchedulingRequest
from gcushare.scheduler_extender.state.vendor_state import VendorState
from gcushare.scheduler_extender.verbs.answer import Answer
from gcushare.wire.extender_preempt import PreemptArguments, Proposal, Victims, encode_victims

logger = logging.getLogger(__name__)

MAX_VICTIMS = 65_536
"""Victims weighed in one call: 500 candidate nodes, as many as the scheduler proposes of 5,000, of 110 pods each."""

MAX_VICTIMS_OF_NODE = 256
"""Victims weighed on one node, which is one step: two or three milliseconds; a kubelet runs 110 pods by default."""

_VICTIMS_PER_TURN = 64
"""About half a millisecond."""


class PreemptService:
    """Answers preempt for one vendor."""

    def __init__(self, state: VendorState) -> None:
        self._state = state

    async def preempt(self, arguments: PreemptArguments, request: SchedulingRequest | None) -> Answer:
        """Say per node that stays which victims must end; others get their turn in between.

        One node is all that the scheduler needs, so where very many victims are proposed, the nodes with most of them
        are left out.

        Raises:
            RemoteContractError: victims cannot be read.
            Refused: nodes were left out, and none of the others would do.
        """
        proposals = arguments.proposals
        if request is None:
            unchanged = {name: (found.uids, found.violations) async for name, found in _read_all(proposals)}
            return Answer(encode_victims(unchanged), "not_asking", self._state.vendor.name)
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
        return Answer(encode_victims(kept), "fits" if kept else "refused", self._state.vendor.name)

    async def _weigh(
        self, proposals: dict[str, Proposal], request: SchedulingRequest
    ) -> tuple[dict[str, tuple[list[str], int]], int]:
        """Choose on every node, those with the shortest proposals first; and count the nodes that were left out."""
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
    """The victims that must end on one node, and how many budgets that breaks at most; None when all are not enough.

    Victims without cards of this vendor stay: the scheduler wants them for cpu, ports or whatever else it counts. For
    the same reason the proposal stays whole where no pod has to end for the cards.

    The scheduler proposes pods again that are leaving. What they hold comes free anyway, so they are named only where
    the cards need no one else's end: then the pod waits for the room as a nominee, and no one ends for it. An answer
    without victims would be an error to the scheduler, so where only others than those proposed are leaving, victims
    are chosen as if these stayed, and where that needs no one either the node is left out.

    The protocol says how many victims break a budget, not which. When it is none or all of them, that is known. When it
    is some, budgets are no criterion: priority, number and age decide alone, so a set that breaks more budgets than
    another may be chosen, and the number answered is the most that it can break.
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
    """Read the victims node by node, the shortest first; a turn of others follows what was made of them."""
    turns = CooperativeYield(_VICTIMS_PER_TURN)
    for name, proposal in sorted(proposals.items(), key=lambda item: item[1].size):
        victims = proposal.read()
        yield name, victims
        await turns.after(1 + len(victims.uids))
