"""``gcushare defragment``: makes the plan, asks, and prints the plan and its outcome as text or JSON."""

from __future__ import annotations

import asyncio
import sys
from functools import partial
from typing import Any, TextIO

from gcushare.cli.defragment.cluster_state import MovablePods, read_state
from gcushare.cli.defragment.defragment_settings import NO_ROOM, STOPPED, DefragmentSettings
from gcushare.cli.defragment.execute import Executed, Executor
from gcushare.cli.terminal.output import TextOrJson, to_json
from gcushare.cli.terminal.screen import is_agreed
from gcushare.cluster.connection import open_cluster
from gcushare.core.log_fields import escape
from gcushare.core.packing.defragment import Move, RoomPlan, plan_room
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.vendors import VENDORS_BY_NAME


def run(settings: DefragmentSettings, process: ProcessContext, *, stdin: TextIO | None = None) -> int:
    """Read the cluster, print the plan, carry it out if asked to and agreed; returns the exit code.

    Without ``stdin`` the process's own is asked.
    """
    stdout, stderr, is_json = process.stdout, process.stderr, settings.output is TextOrJson.JSON

    def report(text: str) -> None:
        stderr.write(f"{escape(text)}\n")
        stderr.flush()

    async def work() -> int:
        async with open_cluster(settings.kube, process.environ, program="gcushare-defragment") as client:
            read = partial(read_state, client, VENDORS_BY_NAME[settings.vendor], settings.most_priority)
            executor = Executor(client, read, report, settings.patience)
            state = await (executor.read_when_settled() if settings.execute else read())
            plan = plan_room(state.ledger, settings.request(), state.found.movable, state.opened)
            for problem in state.problems:
                stderr.write(f"warning: {escape(problem)}\n")
            if not is_json:
                stdout.write(render_text(plan, state.found))
            outcome = None
            if plan is not None and plan.moves and settings.execute:
                listed = ", ".join(str(move.pod) for move in plan.moves)
                question, unattended = f"Evict {listed}, one by one?", f"with --yes these pods are evicted: {listed}"
                if settings.yes or is_agreed(question, unattended, stdin or sys.stdin, process):
                    outcome = await executor.carry_out(plan)
        if is_json:
            stdout.write(render_json(plan, state.found, outcome))
        elif plan is not None and outcome is not None:
            stdout.write(render_outcome(plan, outcome))
        if outcome is not None and not outcome.is_reached:
            return STOPPED
        return DONE if plan is not None else NO_ROOM

    return asyncio.run(work())


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
