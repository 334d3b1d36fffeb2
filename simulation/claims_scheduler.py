"""The scheduler of nodes that serve claims: it takes the first card that fits, of the slices that it knows.

Claims are known to it at once, as it assumes what it allocates; slices come late.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gcushare.core.quantities import parse_count
from gcushare.core.units import GIB
from simulation.claims_node import NAMES
from simulation.store import Doc, Store

SPACE = "default"


@dataclass(slots=True)
class Pod:
    """A pod with a claim. ``units`` 0: a whole card. ``phase``: new (without its claim), waits, bound, runs, ends."""

    name: str
    units: int
    claim: str
    uid: str = ""
    """The claim's."""
    phase: str = "new"
    passes_on: bool = False
    """Whether its claim stays for another pod."""
    node: str = ""
    is_deleted: bool = False
    calling: asyncio.Task[None] | None = None
    call: int = 0
    called_s: float = -100.0


class ClaimsScheduler:
    """Allocates claims and names their pods' nodes."""

    def __init__(self, store: Store, note: Callable[[str], None]) -> None:
        self._store = store
        self._note = note
        self._slices: list[Doc] = []
        """Of the version ``_learned``."""
        self._learned = 0

    def learn(self, version: int, slices: list[Doc]) -> None:
        """Take the slices of a version, unless newer ones are known."""
        if version > self._learned:
            self._learned, self._slices = version, slices

    def schedule(self, pods: Iterable[Pod]) -> None:
        """Allocate the claims of pods that wait."""
        held = self.allocated()
        for pod in pods:
            if pod.phase == "waits" and not pod.is_deleted and (found := self.first_fit(pod, self._slices, held)):
                pool, device, amount = found
                held[pool, device] += amount
                result = {"request": "card", "driver": NAMES.driver, "pool": pool, "device": device,
                          "consumedCapacity": {"memory": str(amount)}}  # fmt: skip
                status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [{"name": pod.name}]}
                self._store.update("resourceclaims", (SPACE, pod.claim), with_status(status), "the scheduler")
                pod.phase, pod.node = "bound", pool
                self._note(f"{pod.name} goes to {device} of {pool}")

    def allocated(self) -> Counter[tuple[str, str]]:
        """Bytes that claims hold of each device, by pool and device."""
        held: Counter[tuple[str, str]] = Counter()
        for stored in self._store.all("resourceclaims").values():
            for result in stored.obj.get("status", {}).get("allocation", {}).get("devices", {}).get("results", ()):
                held[result["pool"], result["device"]] += parse_count(result["consumedCapacity"]["memory"])
        return held

    def first_fit(self, pod: Pod, slices: list[Doc], held: Counter[tuple[str, str]]) -> tuple[str, str, int] | None:
        """The pool, the device and the bytes that a pod's claim gets; None if it fits nowhere."""
        generations: dict[str, int] = {}
        for each in slices:
            pool = each["spec"]["pool"]
            generations[pool["name"]] = max(generations.get(pool["name"], 0), pool["generation"])
        for each in sorted(slices, key=lambda each: str(each["metadata"]["name"])):
            pool = each["spec"]["pool"]
            for device in each["spec"].get("devices", ()):
                size = parse_count(device["capacity"]["memory"]["value"])
                amount = pod.units * GIB or size
                is_free = held[pool["name"], device["name"]] + amount <= size
                if is_free and not device.get("taints") and pool["generation"] == generations[pool["name"]]:
                    return pool["name"], device["name"], amount
        return None


def with_status(status: Doc) -> Callable[[Doc], Doc]:
    """The change of an object that replaces its status."""
    return lambda doc: {**doc, "status": status}
