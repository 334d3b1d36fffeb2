"""A plan, and what became of it, as text and as JSON."""

from __future__ import annotations

from typing import Any

from gcushare.cli.defragment.execute import Executed
from gcushare.cli.defragment.movable import MovablePods
from gcushare.cli.terminal.output_formats import to_json
from gcushare.core.log_fields import escape
from gcushare.core.packing.defragment import Move, RoomPlan


def render_text(plan: RoomPlan | None, found: MovablePods) -> str:
    """The moves in order, and why other pods stay."""
    if plan is None:
        lines = ["No pods that may be moved would make room."]
    elif not plan.moves:
        lines = [f"There is room now: node {plan.node}, {_cards(plan.cards)}."]
    else:
        count = "1 pod" if len(plan.moves) == 1 else f"{len(plan.moves)} pods"
        lines = [f"Room on node {plan.node}, {_cards(plan.cards)}, once {count} moved:"]
        lines += [
            f"  {move.pod} from {move.source} to {move.target}, {_cards(move.target_cards)}" for move in plan.moves
        ]
    lines += [f"{count} pods stay: {reason}" for reason, count in found.kept.items()]
    return "\n".join(lines) + "\n"


def render_outcome(plan: RoomPlan, outcome: Executed) -> str:
    """How far it went, and whether that was enough."""
    lines = []
    if outcome.stopped:
        lines.append(f"stopped after {len(outcome.moved)} of {len(plan.moves)} pods: {escape(outcome.stopped)}")
    if outcome.has_room:
        lines.append(f"There is room now: node {plan.node}.")
    elif outcome.served:
        lines.append(f"The room on node {plan.node} is taken already, by {', '.join(outcome.served)}.")
    elif not outcome.stopped:
        others = ", ".join(outcome.newcomers) or "other pods"
        lines.append(f"All pods moved, and node {plan.node} has no room: {others} took it. Plan again.")
    return "\n".join(lines) + "\n"


def render_json(plan: RoomPlan | None, found: MovablePods, outcome: Executed | None = None) -> str:
    """The same for programs; ``plan`` is null if there is none, ``executed`` if it was not carried out."""
    document: dict[str, Any] = {
        "plan": None
        if plan is None
        else {"node": plan.node, "cards": list(plan.cards), "moves": [_move(move) for move in plan.moves]},
        "kept": dict(found.kept),
        "executed": None
        if outcome is None
        else {
            "moved": [_move(move) for move in outcome.moved],
            "stopped": outcome.stopped,
            "hasRoom": outcome.has_room,
            "newcomers": list(outcome.newcomers),
            "served": list(outcome.served),
        },
    }
    return to_json(document)


def _move(move: Move) -> dict[str, Any]:
    return {
        "namespace": move.pod.namespace,
        "name": move.pod.name,
        "uid": move.pod.uid,
        "from": move.source,
        "to": move.target,
        "cards": list(move.target_cards),
    }


def _cards(indexes: tuple[int, ...]) -> str:
    return f"card{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"
