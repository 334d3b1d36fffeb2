"""What other programs do to the objects of nodes that serve claims."""

from __future__ import annotations

from simulation.claims_node import NAMES, ClaimsNode
from simulation.claims_scheduler import SPACE
from simulation.weather import Odds
from simulation.world import World

_AGAIN_S = (0.0, 2.0, 4.0, 7.0, 11.0)
_LATE_S = 20.0


def delete_slices(world: World, node: ClaimsNode) -> None:
    """A kubelet that starts again and again deletes its node's slices, while the driver's answers are late."""
    node.weather.begin(-1, Odds(answer_s=8.0))
    world.loop.call_world(_LATE_S, node.weather.end, -1)
    for after_s in _AGAIN_S:
        world.loop.call_world(after_s, _delete_slices, world, node)


def _delete_slices(world: World, node: ClaimsNode) -> None:
    for key in _slices(world, node):
        world.store.delete("resourceslices", key, "a kubelet")


def _slices(world: World, node: ClaimsNode) -> list[tuple[str, str]]:
    stored = world.store.all("resourceslices").items()
    return [key for key, each in stored if each.obj["spec"]["nodeName"] == node.name]


def forge_slice(world: World, node: ClaimsNode) -> None:
    """Another program publishes a slice of the driver."""
    key = ("", f"{node.name}-forged")
    if world.store.find("resourceslices", key) is None:
        pool = {"name": node.name, "generation": world.store.version, "resourceSliceCount": 1}
        spec = {"driver": NAMES.driver, "nodeName": node.name, "pool": pool}
        world.store.create("resourceslices", {"metadata": {"name": key[1]}, "spec": spec}, "somebody")


def recreate(world: World, what: str, node: ClaimsNode, template: str, *, is_listed: bool) -> None:
    """Another program deletes an object and makes it again; if ``is_listed``, no watch shows either."""
    plural, key = {
        "template": ("resourceclaimtemplates", (SPACE, template)),
        "slice": ("resourceslices", next(iter(_slices(world, node)), ("", ""))),
        "node": ("nodes", ("", node.name)),
    }[what]
    if (found := world.store.find(plural, key)) is None:
        return
    if is_listed:
        world.gateway.stop()
        world.loop.call_world(0.5, world.gateway.start)
    metadata = {name: value for name, value in found.obj["metadata"].items() if name != "uid"}
    world.store.delete(plural, key, "somebody")
    world.store.create(plural, {**found.obj, "metadata": metadata}, "somebody")
    if is_listed:
        world.store.compact(world.store.version)
