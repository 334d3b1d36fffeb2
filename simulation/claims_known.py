"""What the programs of nodes that serve claims know of the API server, and what they hold that no pod uses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gcushare.device_plugin.claims.claim_checks import CHECK_S, UNSEEN_S, ClaimChecks
from gcushare.scheduler_extender.claims.template_plan import OWN_LABELS
from gcushare.wire.contracts import CLAIMS_ORDER_LABEL
from simulation.claims_node import ClaimsNode
from simulation.claims_schedule import STORM_S
from simulation.store import Doc

if TYPE_CHECKING:
    from simulation.claims_world import ClaimsWorld

ORPHAN_S = UNSEEN_S + ClaimChecks.release_s + 5 * CHECK_S
"""Until a claim that no pod uses is released, if its driver runs all the time."""


def check_orphans(world: ClaimsWorld) -> None:
    """A claim that no pod uses is named once the driver could see it, its card comes last, and it is released."""
    for uid, (where, since_s) in list(world.orphans.items()):
        node = next(each for each in world.nodes if each.name == where)
        claims = node.disk.claims or {}
        if uid not in claims:
            del world.orphans[uid]
        elif world.loop.now_s - since_s > ORPHAN_S + _storms_s(world):
            world.fail("no share without a claim", f"{claims[uid].key} stays prepared on {where}")
        elif node.checks is None or claims[uid].key not in node.checks.problem:
            world.fail("no share without a claim", f"{where} does not name {claims[uid].key}, which no pod uses")
    for node in world.nodes:
        last = [index in _cards_of_orphans(world, node) for index in node.agent.order] if node.agent else []
        if last != sorted(last):
            world.fail("no share without a claim", f"the cards of {node.name} are in the order {last}")


def _storms_s(world: ClaimsWorld) -> float:
    """How long drivers may have been killed again and again: each starts to count again."""
    return sum(calm_s - storm_s + STORM_S for storm_s, calm_s in world.schedule.rounds)


def _cards_of_orphans(world: ClaimsWorld, node: ClaimsNode) -> set[int]:
    claims = node.disk.claims or {}
    return {each.index for uid in world.orphans if uid in claims for each in claims[uid].devices}


def check_views(world: ClaimsWorld) -> None:
    """What programs know of the API server is what it has."""
    for name, views in (
        *((replica.name, replica.views) for replica in world.replicas),
        *((node.name, {"resourceslices": node.publisher._slices} if node.publisher else {}) for node in world.nodes),
    ):
        for plural, view in views.items():
            there = {each.uid for each in world.store.all(plural).values() if _is_watched(world, name, each.obj)}
            if view.objects.keys() != there:
                difference = sorted(view.objects.keys() ^ there)
                world.fail("views are the server's", f"{plural} of {name} differ: {difference}")
    for replica in world.replicas:
        if replica.order is None:
            continue
        if replica.is_leader and (levels := replica.order.plan()):
            world.fail("views are the server's", f"{replica.name} has not written the levels {levels}")
        for node in world.nodes:
            found = world.store.read("nodes", ("", node.name)).obj["metadata"].get("labels", {})
            if (level := replica.order.levels.by_name.get(node.name, 0)) != int(found.get(CLAIMS_ORDER_LABEL, "0")):
                world.fail("views are the server's", f"{replica.name} has level {level} for {node.name}: {found}")


def _is_watched(world: ClaimsWorld, name: str, doc: Doc) -> bool:
    """Whether an object is one of those that a program watches."""
    if any(node.name == name for node in world.nodes):
        return bool(doc["spec"].get("nodeName") == name)
    labels = doc["metadata"].get("labels", {})
    return "devices" not in doc["spec"].get("spec", {}) or OWN_LABELS.items() <= labels.items()
