"""Plans which of the pods that may be moved to move, to make room for a request with as few moves as possible.

The plan is found and then checked on a copy of the ledger, with the same grants that the extender makes. It considers
cards only. kube-scheduler may reject a place because of CPU, taints or affinity.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from gcushare.core.assignments import Assignment, PodRef
from gcushare.core.card_state import CardState
from gcushare.core.errors import Refused
from gcushare.core.ledger import Ledger
from gcushare.core.nodes import NodeState
from gcushare.core.placement import POLICIES, CardRank
from gcushare.core.requests import CardRequest

MAX_COMBINED = 16
"""Pods of one card whose combinations are tried. If there are more, only the largest are combined."""

_TIGHTEST = POLICIES["binpack"].rank_card
_ROOM = PodRef("room", "", "the request")


@dataclass(frozen=True, slots=True)
class Move:
    """A pod to end on ``source``, whose replacement fits on ``target``."""

    pod: PodRef
    request: CardRequest
    source: str
    target: str
    target_cards: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RoomPlan:
    """Where the request fits after the moves, to be made in this order. No moves: it fits already."""

    request: CardRequest
    node: str
    cards: tuple[int, ...]
    moves: tuple[Move, ...]


@dataclass(frozen=True, slots=True)
class _Candidate:
    """Cards of a node that could be cleared, and the pods that would have to move."""

    node: str
    cards: tuple[int, ...]
    uids: tuple[str, ...]
    units: int


def plan_room(
    ledger: Ledger, request: CardRequest, movable: Mapping[str, CardRequest], nodes: Collection[str]
) -> RoomPlan | None:
    """Find the plan that moves the fewest pods and, among equals, the fewest units; None if there is none.

    Only pods in ``movable`` (requests by uid) are moved, and only between ``nodes``. Each moves to a place that is free
    without a further move. Pods that hold several cards stay.
    """
    trial = copy_ledger(ledger)
    movable = {uid: _as_counted(trial, uid, asked) for uid, asked in movable.items()}
    candidates = sorted(
        (found for name in nodes if (found := _cheapest(trial, name, request, movable)) is not None),
        key=lambda found: (len(found.uids), found.units, found.node),
    )
    for candidate in candidates:
        plan = _try(trial, request, candidate, movable, nodes)
        if plan is not None:
            prove(ledger, plan)
            return plan
    return None


def _as_counted(ledger: Ledger, uid: str, request: CardRequest) -> CardRequest:
    """A bound pod's request in the unit of its node: on a node with another one it would have another amount."""
    held = ledger.assignment(uid)
    unit = ledger.nodes[held.node].unit if held is not None else None
    return request if unit is None or request.whole else replace(request, per_gib=unit.per_gib)


def prove(ledger: Ledger, plan: RoomPlan) -> None:
    """Execute the plan on a copy of the ledger, with the cards that it names.

    Raises:
        Refused: a step fails on this ledger; the message says which.
    """
    copy = copy_ledger(ledger)
    for move in plan.moves:
        held = copy.assignment(move.pod.uid)
        if held is None or held.node != move.source:
            raise Refused(f"pod {move.pod} is not on node {move.source!r} any more; plan again")
        copy.forget(move.pod.uid)
    copy.reserve(_ROOM, plan.node, plan.request, _exactly(plan.cards))
    for move in plan.moves:
        granted = copy.reserve(move.pod, move.target, move.request, _exactly(move.target_cards))
        if tuple(grant.index for grant in granted.grants) != move.target_cards:
            raise Refused(f"pod {move.pod} does not fit cards {move.target_cards} of node {move.target!r}; plan again")


def copy_ledger(ledger: Ledger) -> Ledger:
    """An independent ledger with the same nodes and assignments."""
    copy = Ledger(ledger.unit, is_given=ledger.is_given)
    for node in ledger.nodes.values():
        if node.known:
            copy.set_node(node.name, node.present_cards, node.unit, node.modes)
    for assignment in ledger.assignments():
        copy.apply(assignment)
    return copy


def _cheapest(ledger: Ledger, name: str, request: CardRequest, movable: Mapping[str, CardRequest]) -> _Candidate | None:
    """The cards of a node that can be cleared with the fewest pods and units; None if it has too few such cards."""
    node = ledger.nodes.get(name)
    if node is None or not node.known or not node.serves(request):
        return None
    costs = []
    for state in node.cards.values():
        pods = _pods_to_move(node, state, request, movable)
        if pods is not None:
            costs.append((len(pods), _freed(pods, state), state.index, _uids(pods)))
    if len(costs) < request.cards:
        return None
    chosen = sorted(costs)[: request.cards]
    cards = tuple(sorted(index for _, _, index, _ in chosen))
    uids = tuple(uid for *_, moved in chosen for uid in moved)
    return _Candidate(name, cards, uids, sum(units for _, units, _, _ in chosen))


def _pods_to_move(
    node: NodeState, state: CardState, request: CardRequest, movable: Mapping[str, CardRequest]
) -> Sequence[Assignment] | None:
    """The fewest, then smallest pods of one card that would have to move; None if moving all is not enough."""
    if node.is_unconfirmed or not (state.takes(request) and state.could_hold(request)):
        return None
    if state.can_hold(request):
        return ()
    held = [each for each in node.assignments.values() if any(grant.index == state.index for grant in each.grants)]
    loose = [each for each in held if len(each.grants) == 1 and each.pod.uid in movable]
    if request.whole:
        # Units kept for a pod whose card is unknown stay kept, even if all other pods move.
        return loose if len(loose) == len(held) and not state.kept else None
    missing = request.units - state.total + state.held + state.kept
    largest = sorted(loose, key=lambda each: (-_freed((each,), state), each.pod.uid))[:MAX_COMBINED]
    counts = range(1, len(largest) + 1)
    for count in (count for count in counts if _freed(largest[:count], state) >= missing):  # These free the most.
        enough = [found for found in combinations(largest, count) if _freed(found, state) >= missing]
        if enough:
            return min(enough, key=lambda found: (_freed(found, state), _uids(found)))
    return None


def _freed(pods: Sequence[Assignment], state: CardState) -> int:
    return sum(state.total if grant.whole else grant.units for each in pods for grant in each.grants)


def _uids(pods: Sequence[Assignment]) -> tuple[str, ...]:
    return tuple(each.pod.uid for each in pods)


def _try(
    trial: Ledger,
    request: CardRequest,
    candidate: _Candidate,
    movable: Mapping[str, CardRequest],
    nodes: Collection[str],
) -> RoomPlan | None:
    """Make the moves on the trial ledger, check that every pod finds a place, and undo them."""
    moved = [held for uid in candidate.uids if (held := trial.assignment(uid)) is not None]
    for held in moved:
        trial.forget(held.pod.uid)
    trial.reserve(_ROOM, candidate.node, request, _exactly(candidate.cards))
    moves: list[Move] = []
    for held in sorted(moved, key=lambda each: (-each.units, each.pod.uid)):
        target = _place_for(trial, movable[held.pod.uid], nodes)
        if target is None:
            break
        granted = trial.reserve(held.pod, target, movable[held.pod.uid], _TIGHTEST)
        cards = tuple(grant.index for grant in granted.grants)
        moves.append(Move(held.pod, movable[held.pod.uid], held.node, target, cards))
    trial.forget(_ROOM.uid)
    for held in moved:
        trial.forget(held.pod.uid)
    for held in moved:
        trial.apply(held)
    return RoomPlan(request, candidate.node, candidate.cards, tuple(moves)) if len(moves) == len(moved) else None


def _place_for(ledger: Ledger, request: CardRequest, nodes: Collection[str]) -> str | None:
    """The node whose best card has the least left afterwards, so that large free pieces stay; by name among equals."""
    fitting = (
        node for name in nodes if (node := ledger.nodes.get(name)) is not None and node.known and node.fits(request)
    )
    return min(((_left(node, request), node.name) for node in fitting), default=(0, None))[1]


def _left(node: NodeState, request: CardRequest) -> int:
    return min(state.grantable for state in node.cards.values() if state.can_hold(request)) - request.units


def _exactly(cards: Collection[int]) -> CardRank:
    """A card rank that puts the named cards first."""

    def rank(state: CardState, _request: CardRequest) -> tuple[int, ...]:
        return (state.index not in cards,)

    return rank
