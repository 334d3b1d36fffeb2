"""The kubelet's device manager: who holds which ids.

Source of the flow: the stock kubelet (pkg/kubelet/cm/devicemanager), as the doubles of the playground have it.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass, field

from gcushare.wire.protos import deviceplugin_pb2 as pb

Held = dict[tuple[str, str, str], frozenset[str]]
"""Ids by pod uid, container and resource."""


class AdmissionRefused(Exception):
    """A container cannot have its devices."""


@dataclass
class DeviceManager:
    """One node's. ``held`` is what the checkpoint keeps, lists are what plugins sent since the kubelet's start."""

    rng: random.Random
    held: Held = field(default_factory=dict)
    healthy: dict[str, frozenset[str]] = field(default_factory=dict)
    unhealthy: dict[str, frozenset[str]] = field(default_factory=dict)

    def take_list(self, resource: str, message: bytes) -> None:
        """A plugin sent its list."""
        devices = pb.ListAndWatchResponse.FromString(message).devices
        self.healthy[resource] = frozenset(each.ID for each in devices if each.health == "Healthy")
        self.unhealthy[resource] = frozenset(each.ID for each in devices if each.health != "Healthy")

    def lose_plugin(self, resource: str) -> None:
        """A plugin's stream ended: nothing of it can be handed out."""
        self.unhealthy[resource] = self.unhealthy.get(resource, frozenset()) | self.healthy.get(resource, frozenset())
        self.healthy[resource] = frozenset()

    def free(self, resource: str) -> frozenset[str]:
        """Healthy ids that no one holds."""
        return self.healthy.get(resource, frozenset()).difference(
            *(ids for (_, _, of), ids in self.held.items() if of == resource)
        )

    def capacity(self, resource: str) -> tuple[int, int]:
        """How many there are, and how many of them are healthy."""
        healthy = len(self.healthy.get(resource, ()))
        return healthy + len(self.unhealthy.get(resource, ())), healthy

    def keep_only(self, uids: Collection[str]) -> None:
        """Free what pods held that are not active any more."""
        for key in [key for key in self.held if key[0] not in uids]:
            del self.held[key]

    def end(self, uid: str) -> None:
        """Free what a pod holds."""
        for key in [key for key in self.held if key[0] == uid]:
            del self.held[key]

    def check_can(self, resource: str, size: int, reusable: frozenset[str]) -> frozenset[str]:
        """The free ids from which a container may be served; raises AdmissionRefused where they are too few."""
        if resource not in self.healthy:
            raise AdmissionRefused(f"cannot allocate unregistered device {resource}")
        free = self.free(resource)
        if len(free | reusable) < size:
            raise AdmissionRefused(
                f"requested number of devices unavailable for {resource}. Requested: {size}, Available: {len(free)}"
            )
        return free

    def choose(self, free: frozenset[str], preferred: Collection[str], reusable: frozenset[str], size: int) -> set[str]:
        """Pick ids: of earlier init containers first, then what is preferred, then any."""
        picked: set[str] = set()
        for pool in (reusable, free.intersection(preferred), free):
            fresh = sorted(pool - picked)
            wanted = size - len(picked)
            picked |= set(fresh if len(fresh) <= wanted else self.rng.sample(fresh, wanted))
        return picked

    def grant(self, key: tuple[str, str, str], ids: Collection[str]) -> str:
        """Write down who got them; returns who has them already, or nothing."""
        others = {
            other: taken
            for other, taken in self.held.items()
            if other[2] == key[2] and other[0] != key[0] and not taken.isdisjoint(ids)
        }
        self.held[key] = frozenset(ids)
        return f"{key} got ids of {sorted(others)}" if others else ""
