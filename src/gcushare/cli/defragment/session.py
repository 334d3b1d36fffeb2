"""``gcushare defragment``: cluster, plan, exit code."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from gcushare.cli.defragment.movable import Sorted, sort_pods
from gcushare.cli.defragment.settings import NO_ROOM, DefragmentSettings, Output
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.reading import UNFINISHED
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.packing.defragment import RoomPlan, plan_room
from gcushare.kube.resources import NODES, PODS, Selector
from gcushare.runtime.entry import Surroundings
from gcushare.runtime.exit_codes import DONE
from gcushare.vendors import VENDORS_BY_NAME
from gcushare.wire.objects import Pod


def run(settings: DefragmentSettings, around: Surroundings) -> int:
    """Read the cluster, print the plan, and return the exit code."""
    picture, pods = asyncio.run(_read(settings, around.environ))
    found = sort_pods(pods, picture.vendor, most_priority=settings.most_priority)
    opened = sorted(name for name, facts in picture.nodes.items() if facts.is_ready and not facts.is_unschedulable)
    plan = plan_room(picture.ledger, settings.request(), found.movable, opened)
    is_json = settings.output is Output.JSON
    around.stdout.write(render_json(plan, found) if is_json else render_text(plan, found))
    return DONE if plan is not None else NO_ROOM


async def _read(settings: DefragmentSettings, environ: Mapping[str, str]) -> tuple[ClusterSnapshot, list[Pod]]:
    picture = ClusterSnapshot(VENDORS_BY_NAME[settings.vendor.value])
    async with open_cluster(settings.kube, environ, program="gcushare-defragment") as client:
        for node in await client.list_all(NODES):
            picture.see_node(node)
        pods = await client.list_all(PODS, Selector(fields=UNFINISHED))
    for pod in pods:
        picture.see_pod(pod)
    return picture, pods


def render_text(plan: RoomPlan | None, found: Sorted) -> str:
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


def render_json(plan: RoomPlan | None, found: Sorted) -> str:
    """The same for programs; ``plan`` is null where there is none."""
    document: dict[str, Any] = {
        "plan": None
        if plan is None
        else {
            "node": plan.node,
            "cards": list(plan.cards),
            "moves": [
                {
                    "namespace": move.pod.namespace,
                    "name": move.pod.name,
                    "uid": move.pod.uid,
                    "from": move.source,
                    "to": move.target,
                    "cards": list(move.target_cards),
                }
                for move in plan.moves
            ],
        },
        "kept": dict(found.kept),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _cards(indexes: tuple[int, ...]) -> str:
    return f"card{'s' if len(indexes) > 1 else ''} {', '.join(map(str, indexes))}"
