"""What nodes that serve claims give out and know of the API server, and what they hold that no pod uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import TypeAlias

from gcushare.device_plugin.claims.claim_checks import CHECK_S, UNSEEN_S, ClaimChecks
from gcushare.node.grant_form import read_given
from gcushare.scheduler_extender.claims.template_plan import OWN_LABELS
from gcushare.vendors import ALIYUN
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from simulation.claims_node import ClaimsNode
from simulation.claims_replica import ClaimsReplica
from simulation.claims_scheduler import Pod
from simulation.store import Doc
from simulation.world import World

ORPHAN_S = UNSEEN_S + ClaimChecks.release_s + 5 * CHECK_S
"""Until a claim that no pod uses is released, if its driver runs all the time."""


Orphans: TypeAlias = dict[str, tuple[str, float]]
"""Claims whose use the kubelet forgot, by uid: the node, and when."""


def check_cards(world: World, nodes: Iterable[ClaimsNode], pods: Collection[Pod]) -> None:
    """No card over its size, by what the files on the nodes' disks give; what runs has its file."""
    for node in nodes:
        if node.disk.claims is None:
            continue
        held: Counter[str] = Counter()
        for claim in node.disk.files.values():
            given = read_given(ALIYUN, [each.index for each in claim.devices], claim.edits.variables, claim.cdi_names)
            for device in claim.devices:
                held[given[device.index]] += device.memory_bytes
        for card in (each.card for each in node.machine.cards.values()):
            if (amount := held[card.uuid]) > card.memory_bytes:
                world.fail("no card is given beyond its size", f"{card.uuid} of {node.name} gives {amount} bytes")
        for pod in pods:
            if pod.node == node.name and pod.phase == "runs" and pod.uid not in node.disk.files:
                world.fail("what runs has its share", f"{pod.name} on {node.name} has no CDI file")


def check_orphans(world: World, nodes: Sequence[ClaimsNode], orphans: Orphans, storms_s: float) -> None:
    """A claim that no pod uses is named once the driver could see it, and is released."""
    for uid, (where, since_s) in list(orphans.items()):
        node = next(each for each in nodes if each.name == where)
        claims = node.disk.claims or {}
        if uid not in claims:
            del orphans[uid]
        elif world.loop.now_s - since_s > ORPHAN_S + storms_s:
            world.fail("no share without a claim", f"{claims[uid].key} stays prepared on {where}")
        elif node.checks is None or claims[uid].key not in node.checks.problem:
            world.fail("no share without a claim", f"{where} does not name {claims[uid].key}, which no pod uses")


def check_views(world: World, nodes: Sequence[ClaimsNode], replicas: Sequence[ClaimsReplica]) -> None:
    """What programs know of the API server is what it has."""
    for name, views in (
        *((replica.name, replica.views) for replica in replicas),
        *((node.name, {"resourceslices": node.publisher._slices} if node.publisher else {}) for node in nodes),
    ):
        for plural, view in views.items():
            there = {each.uid for each in world.store.all(plural).values() if _is_watched(nodes, name, each.obj)}
            if view.objects.keys() != there:
                difference = sorted(view.objects.keys() ^ there)
                world.fail("views are the server's", f"{plural} of {name} differ: {difference}")
    for replica in replicas:
        if replica.order is None:
            continue
        if replica.is_leader and (levels := replica.order.plan()):
            world.fail("views are the server's", f"{replica.name} has not written the levels {levels}")
        for node in nodes:
            found = world.store.read("nodes", ("", node.name)).obj["metadata"].get("labels", {})
            if (level := replica.order.levels.get(node.name, 0)) != int(found.get(CLAIMS_ORDER_LABEL, "0")):
                world.fail("views are the server's", f"{replica.name} has level {level} for {node.name}: {found}")


def _is_watched(nodes: Sequence[ClaimsNode], name: str, doc: Doc) -> bool:
    """Whether an object is one of those that a program watches."""
    if any(node.name == name for node in nodes):
        return bool(doc["spec"].get("nodeName") == name)
    labels = doc["metadata"].get("labels", {})
    return "devices" not in doc["spec"].get("spec", {}) or OWN_LABELS.items() <= labels.items()
