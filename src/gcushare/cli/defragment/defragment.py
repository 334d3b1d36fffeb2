"""``gcushare defragment``: makes the plan, and prints it with the commands that carry it out, as text or JSON."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from typing import Any

from gcushare.cli.defragment.cluster_state import read_state
from gcushare.cli.defragment.defragment_settings import NO_ROOM, DefragmentSettings
from gcushare.cli.terminal.output import TextOrJson, to_json
from gcushare.cluster.connection import open_cluster
from gcushare.core.log_fields import escape
from gcushare.core.packing.defragment import Move, RoomPlan, plan_room
from gcushare.core.wording import counted
from gcushare.kube.patches import eviction
from gcushare.kube.resources import PODS
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.vendors import VENDORS_BY_NAME
from gcushare.wire.kubernetes_versions import eviction_version


def run(settings: DefragmentSettings, process: ProcessContext) -> int:
    """Read the cluster and print the plan; returns the exit code."""
    stdout, stderr = process.stdout, process.stderr

    async def work() -> int:
        async with open_cluster(settings.kube, process.environ, program="gcushare-defragment") as client:
            state = await read_state(client, VENDORS_BY_NAME[settings.vendor])
            version = eviction_version(await client.version())
        plan = plan_room(state.ledger, settings.request(), state.movable, state.opened)
        for problem in state.problems:
            stderr.write(f"warning: {escape(problem)}\n")
        render = render_json if settings.output is TextOrJson.JSON else render_text
        stdout.write(render(plan, state.kept, version))
        return DONE if plan is not None else NO_ROOM

    return asyncio.run(work())


def render_text(plan: RoomPlan | None, kept: Mapping[str, int], version: str) -> str:
    """The moves in order with their commands, and why other pods stay. ``version`` is the API version of evictions."""
    if plan is None:
        lines = ["No pods that may be moved would make room."]
    elif not plan.moves:
        lines = [f"There is room now: node {plan.node}, {_cards(plan.cards)}."]
    else:
        count = counted(len(plan.moves), "pod")
        lines = [f"Room on node {plan.node}, {_cards(plan.cards)}, once {count} moved:"]
        lines += [
            f"  {move.pod} from {move.source} to {move.target}, {_cards(move.target_cards)}" for move in plan.moves
        ]
        once = "" if len(plan.moves) == 1 else ", each once the pod before it runs again"
        lines += [f"To move them{once}:", *(f"  {eviction_command(move, version)}" for move in plan.moves)]
    lines += [f"not moved: {counted(count, 'pod')}, {reason}" for reason, count in kept.items()]
    return "\n".join(lines) + "\n"


def render_json(plan: RoomPlan | None, kept: Mapping[str, int], version: str) -> str:
    """The same for programs; ``plan`` is null if there is none."""
    document: dict[str, Any] = {
        "plan": None
        if plan is None
        else {
            "node": plan.node,
            "cards": list(plan.cards),
            "moves": [_move(move) | {"command": eviction_command(move, version)} for move in plan.moves],
        },
        "kept": dict(kept),
    }
    return to_json(document)


def eviction_command(move: Move, version: str) -> str:
    """The shell command that evicts this pod and no other of its name, if its disruption budgets allow it."""
    body = json.dumps(eviction(move.pod, version), separators=(",", ":"))
    path = PODS.path(move.pod.name, namespace=move.pod.namespace, subresource="eviction")
    return f"echo {shlex.quote(body)} | kubectl create --raw {shlex.quote(path)} -f -"


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
