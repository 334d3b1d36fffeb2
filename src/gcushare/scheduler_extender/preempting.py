"""preempt: keep the candidate nodes where the scheduler's victims free cards enough, and only the victims needed."""

from __future__ import annotations

from gcushare.core.nodes import NodeState
from gcushare.core.preemption import Victim, choose_victims
from gcushare.core.requests import CardRequest
from gcushare.scheduler_extender.asking import Asking
from gcushare.scheduler_extender.filtering import Answer
from gcushare.scheduler_extender.state import VendorState
from gcushare.wire.extender import MetaVictims, PreemptArguments, encode_victims


class PreemptService:
    """Answers preempt for one vendor."""

    def __init__(self, state: VendorState) -> None:
        self._state = state

    def preempt(self, arguments: PreemptArguments, asking: Asking | None) -> Answer:
        """Say per node that stays which victims must end."""
        proposal = arguments.victims()
        if asking is None:
            unchanged = {name: (_uids(victims), victims.violations) for name, victims in proposal.items()}
            return Answer(encode_victims(unchanged), "not_asking", self._state.vendor.name)
        chosen = {name: self._choose(name, asking.shape.request, victims) for name, victims in proposal.items()}
        kept = {name: victims for name, victims in chosen.items() if victims is not None}
        return Answer(encode_victims(kept), "fits" if kept else "refused", self._state.vendor.name)

    def _choose(self, name: str, request: CardRequest, victims: MetaVictims) -> tuple[list[str], int] | None:
        node = self._state.ledger.nodes.get(name)
        return None if node is None else reduce_victims(node, request, _uids(victims), violations=victims.violations)


def reduce_victims(
    node: NodeState, request: CardRequest, uids: list[str], *, violations: int
) -> tuple[list[str], int] | None:
    """The victims that must end on one node, and how many budgets that breaks at most; None when all are not enough.

    Victims without cards of this vendor stay: the scheduler wants them for cpu, ports or whatever else it counts. For
    the same reason the proposal stays whole where the cards need nobody's end. The protocol says how many victims
    break a budget, not which: when it is none or all of them that is known, else it is no criterion.
    """
    breaks_all = 0 < len(uids) <= violations
    holders = {uid: node.assignments[uid] for uid in uids if uid in node.assignments}
    chosen = choose_victims(node, request, [Victim(held.pod, breaks_all) for held in holders.values()])
    if chosen is None:
        return None
    if not chosen:
        return uids, violations
    needed = {victim.pod.uid for victim in chosen}
    kept = [uid for uid in uids if uid not in holders or uid in needed]
    return kept, min(violations, len(kept))


def _uids(victims: MetaVictims) -> list[str]:
    return list(dict.fromkeys(pod.uid for pod in victims.pods or ()))
