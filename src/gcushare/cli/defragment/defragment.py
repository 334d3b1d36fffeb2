"""``gcushare defragment``: decides which pods may be moved, and prints the plan with the commands that carry it out."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from gcushare.cli.defragment.defragment_settings import NO_ROOM, DefragmentSettings
from gcushare.cli.terminal.output import TextOrJson, to_json
from gcushare.cluster.connection import open_cluster
from gcushare.cluster.reader import Reader, Scope
from gcushare.cluster.snapshot import ClusterSnapshot
from gcushare.core.errors import Refused, RemoteContractError
from gcushare.core.log_fields import escape
from gcushare.core.packing.defragment import Move, RoomPlan, plan_room
from gcushare.core.requests import CardRequest
from gcushare.core.wording import counted
from gcushare.kube.patches import eviction
from gcushare.kube.resources import PODS
from gcushare.runtime.entry import ProcessContext
from gcushare.runtime.exit_codes import DONE
from gcushare.vendors import VENDORS, VENDORS_BY_NAME
from gcushare.vendors.vendor import Vendor
from gcushare.wire.kubernetes_versions import eviction_version
from gcushare.wire.nodes import find_vendor
from gcushare.wire.objects import Pod
from gcushare.wire.pods import is_finished, pod_request


def run(settings: DefragmentSettings, process: ProcessContext) -> int:
    """Read the cluster and print the plan; returns the exit code."""

    async def work() -> int:
        async with open_cluster(settings.kube, process.environ, program="gcushare-defragment") as client:
            reader = Reader(client)
            nodes = await reader.list_nodes(Scope())
            vendor = VENDORS_BY_NAME[settings.vendor] if settings.vendor else find_vendor(nodes) or VENDORS[0]
            snapshot, pods = ClusterSnapshot(vendor, problems=reader.problems), await reader.list_pods(vendor, Scope())
            version = eviction_version(await client.version())
        snapshot.count(nodes, pods)
        movable, kept = find_movable(pods, vendor)
        opened = sorted(name for name, facts in snapshot.node_facts.items() if facts.takes_pods)
        plan = plan_room(snapshot.ledger, settings.request(), movable, opened)
        for problem in snapshot.problems:
            process.stderr.write(f"warning: {escape(problem)}\n")
        render = render_json if settings.output is TextOrJson.JSON else render_text
        process.stdout.write(render(plan, kept, version))
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


EXEMPTIONS: Mapping[str, str] = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "descheduler.alpha.kubernetes.io/prefer-no-eviction": "true",
}
"""Annotations, with their values, by which a pod's author asks not to move it."""

_BOUND_TO_ITS_NODE = ("DaemonSet", "Node")


def find_movable(pods: Iterable[Pod], vendor: Vendor) -> tuple[dict[str, CardRequest], dict[str, int]]:
    """Return the requests of bound pods that may be moved, by uid, and how many may not, by reason."""
    movable: dict[str, CardRequest] = {}
    kept: Counter[str] = Counter()
    for pod in pods:
        if not pod.is_bound or is_finished(pod):
            continue
        try:
            request = pod_request(pod, vendor)
        except (RemoteContractError, Refused):
            kept["with a request that cannot be read"] += 1
            continue
        if request is None:
            continue
        reason = _reason_to_stay(pod)
        if reason:
            kept[reason] += 1
        else:
            movable[pod.metadata.uid] = request.cards
    return movable, dict(sorted(kept.items()))


def _reason_to_stay(pod: Pod) -> str:
    owner = next((each for each in pod.metadata.owner_references if each.controller), None)
    if owner is None:
        return "without a controller that creates another"
    if owner.kind in _BOUND_TO_ITS_NODE:
        return f"tied to a node (of a {owner.kind})"
    if pod.is_being_deleted:
        return "being deleted"
    if any(pod.metadata.annotations.get(key) == value for key, value in EXEMPTIONS.items()):
        return "exempt by annotation"
    if (pod.spec.priority or 0) > 0:
        return "with a priority that is too high"
    return ""
