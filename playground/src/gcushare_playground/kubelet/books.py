"""The device manager's accounting: which ids exist, which are healthy, and which container holds which.

Plain state without I/O; ``allocation`` decides with it and ``plugins`` feeds it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos.services import HEALTHY
from gcushare_playground.kubelet.checkpoint import NO_NUMA_NODE, Checkpoint, PodDevices


@dataclass(frozen=True, slots=True)
class ResourceCount:
    """Capacity counts all ids of a resource, allocatable only the healthy ones."""

    capacity: int
    allocatable: int


class DeviceBooks:
    """Ids per resource and what containers hold.

    Invariant: an id is in at most one of ``healthy`` and ``unhealthy``; ``allocated`` holds every id of an entry, and
    between a choice and the plugin's answer also the ids chosen.
    """

    def __init__(self) -> None:
        self.healthy: dict[str, set[str]] = {}
        self.unhealthy: dict[str, set[str]] = {}
        self.allocated: dict[str, set[str]] = {}
        self._numa: dict[str, dict[str, tuple[int, ...]]] = {}
        self._entries: dict[str, dict[tuple[str, str], PodDevices]] = {}

    def restore(self, checkpoint: Checkpoint) -> None:
        """Take over a checkpoint. Registered resources are known but empty until their plugin lists its ids again."""
        for entry in checkpoint.entries or ():
            self._entries.setdefault(entry.pod_uid, {})[entry.container, entry.resource] = entry
        for resource in checkpoint.registered:
            self.healthy[resource] = set()
            self.unhealthy[resource] = set()
        self.recount()

    def checkpoint(self) -> Checkpoint:
        return Checkpoint(tuple(self.entries()) or None, self.healthy)

    def apply_list(self, resource: str, devices: Iterable[pb.Device]) -> None:
        """Replace the resource's ids by a plugin's whole list; every health but "Healthy" counts as unhealthy."""
        healthy: set[str] = set()
        unhealthy: set[str] = set()
        numa: dict[str, tuple[int, ...]] = {}
        for device in devices:
            (healthy if device.health == HEALTHY else unhealthy).add(device.ID)
            if device.HasField("topology"):
                numa[device.ID] = tuple(node.ID for node in device.topology.nodes)
        self.healthy[resource], self.unhealthy[resource], self._numa[resource] = healthy, unhealthy, numa

    def mark_unhealthy(self, resource: str) -> None:
        """Turn every id of the resource unhealthy, as when its plugin is gone."""
        self.unhealthy.setdefault(resource, set()).update(self.healthy.get(resource, ()))
        self.healthy[resource] = set()

    def counts(self) -> dict[str, ResourceCount]:
        """Return capacity and allocatable of every known resource, by name."""
        return {
            resource: ResourceCount(len(healthy) + len(self.unhealthy.get(resource, ())), len(healthy))
            for resource, healthy in sorted(self.healthy.items())
        }

    def free(self, resource: str) -> set[str]:
        """Healthy ids that no container holds."""
        return self.healthy[resource] - self.allocated.get(resource, set())

    def is_plugin_resource(self, resource: str) -> bool:
        """Say whether a plugin registered the resource, or some container holds ids of it from before."""
        return resource in self.healthy or resource in self.allocated

    def entries(self) -> Iterator[PodDevices]:
        for held in self._entries.values():
            yield from held.values()

    def container_entries(self, uid: str, container: str) -> list[PodDevices]:
        held = self._entries.get(uid, {})
        return [entry for (name, _), entry in sorted(held.items()) if name == container]

    def held_ids(self, uid: str, container: str, resource: str) -> frozenset[str] | None:
        """Return the ids a container holds of a resource, None when it was given none."""
        entry = self._entries.get(uid, {}).get((container, resource))
        return None if entry is None else entry.ids

    def find_conflict(self, uid: str, container: str) -> str:
        """Say which other pods hold ids of a container; nothing where all is right."""
        for mine in self.container_entries(uid, container):
            others = sorted(
                f"{each.pod_uid} {each.container}"
                for each in self.entries()
                if each.resource == mine.resource and each.pod_uid != uid and not each.ids.isdisjoint(mine.ids)
            )
            if others:
                return f"{uid} {container} got ids of {mine.resource} that {others} hold"
        return ""

    def pod_ids(self, uid: str, resource: str) -> frozenset[str]:
        """Return the ids that all containers of a pod hold of a resource."""
        held = self._entries.get(uid, {}).values()
        return frozenset[str]().union(*(entry.ids for entry in held if entry.resource == resource))

    def holders(self) -> set[str]:
        """Return the uids of pods that hold ids."""
        return set(self._entries)

    def insert(self, uid: str, container: str, resource: str, ids: Collection[str], answer: bytes) -> None:
        """Record what a plugin granted."""
        entry = PodDevices(uid, container, resource, self.by_numa(resource, ids), answer)
        self._entries.setdefault(uid, {})[container, resource] = entry
        self.allocated.setdefault(resource, set()).update(ids)

    def remove_pods(self, uids: Iterable[str]) -> None:
        if [uid for uid in uids if self._entries.pop(uid, None)]:
            self.recount()

    def recount(self) -> None:
        """Rebuild ``allocated`` from the entries, dropping ids that were chosen but never granted."""
        allocated: dict[str, set[str]] = {}
        for entry in self.entries():
            allocated.setdefault(entry.resource, set()).update(entry.ids)
        self.allocated = allocated

    def by_numa(self, resource: str, ids: Iterable[str]) -> Mapping[int, tuple[str, ...]]:
        """Group ids by the NUMA nodes their devices named; an id of two nodes stands under both."""
        numa = self._numa.get(resource, {})
        groups: dict[int, list[str]] = {}
        for id_ in sorted(ids):
            for node in numa.get(id_) or (NO_NUMA_NODE,):
                groups.setdefault(node, []).append(id_)
        return {node: tuple(members) for node, members in sorted(groups.items())}
