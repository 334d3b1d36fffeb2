"""The scheduler of nodes that serve claims: it takes the first card that fits, of the slices that it knows.

Claims are known to it at once, as it assumes what it allocates; slices come late.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gcushare_playground.scheduler.claims import ClaimsView, Device, allocated_status, devices_of, held_by
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
        self._devices: tuple[Device, ...] = ()
        """Of the slices of the version ``_learned``."""
        self._learned = 0

    def learn(self, version: int, slices: list[Doc]) -> None:
        """Take the slices of a version, unless newer ones are known."""
        if version > self._learned:
            self._learned, self._devices = version, tuple(devices_of(slices))

    def schedule(self, pods: Iterable[Pod]) -> None:
        """Allocate the claims of pods that wait."""
        held: Counter[tuple[str, str, str]] | None = None
        for pod in pods:
            if pod.phase != "waits" or pod.is_deleted:
                continue
            held = held or self.held()
            if found := self.first_fit(pod, self._devices, held):
                held = None
                pod.phase, pod.node, results = "bound", *found
                claim = self._store.read("resourceclaims", (SPACE, pod.claim)).obj
                status = allocated_status(claim, results, pod.name, pod.name)
                self._store.update("resourceclaims", (SPACE, pod.claim), with_status(status), "the scheduler")
                self._note(f"{pod.name} goes to {results[0]['device']} of {pod.node}")

    def held(self) -> Counter[tuple[str, str, str]]:
        """The bytes that claims hold of each device."""
        return held_by(each.obj for each in self._store.all("resourceclaims").values())

    def first_fit(
        self, pod: Pod, devices: tuple[Device, ...], held: Counter[tuple[str, str, str]]
    ) -> tuple[str, list[Doc]] | None:
        """The node and the results that a pod's claim gets; None if it fits nowhere."""
        claim = self._store.read("resourceclaims", (SPACE, pod.claim)).obj
        drivers = dict.fromkeys((NAMES.memory_class, NAMES.whole_class), NAMES.driver)
        view = ClaimsView((claim,), drivers, devices, held, self._new_uid)
        found = ((node, view.allocate(node)) for node in dict.fromkeys(each.node for each in devices))
        return next(((node, results[0]) for node, results in found if results), None)

    def _new_uid(self) -> str:
        """By the version: the store has it once."""
        return str(uuid.UUID(int=self._store.version))


def with_status(status: Doc) -> Callable[[Doc], Doc]:
    """The change of an object that replaces its status."""
    return lambda doc: {**doc, "status": status}
