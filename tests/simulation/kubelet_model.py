"""A kubelet's device manager without sockets, processes or time: who holds which ids, and the order of its calls.

The flow is the stock kubelet's (admission container by container, ids of init containers offered again, an error fails
the pod); ``gcushare_playground.kubelet`` is the same with real sockets. What breaks its own rules is an AssertionError.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gcushare.core.errors import GcushareError, RetryableError
from gcushare.device_plugin.allocation.memory import MemoryAllocator
from gcushare.device_plugin.pods.kubelet_allocations import KubeletAllocations
from gcushare.wire.kubelet.device_ids import decode_device_id, device_ids_of_card
from gcushare.wire.kubelet.device_lists import PreferredRequest, device_ids

SHOWN_AFTER_S = (0.006, 0.025)
"""podresources shows an allocation this long after Allocate's answer."""


@dataclass(frozen=True)
class ContainerModel:
    name: str
    units: int
    is_init: bool = False


@dataclass(frozen=True)
class PodModel:
    """A pod as the kubelet sees it."""

    uid: str
    name: str
    containers: tuple[ContainerModel, ...]


class KubeletDied(Exception):
    """It was killed between GetPreferredAllocation and Allocate."""


@dataclass
class KubeletModel:
    """``faults`` that a test sets: ``ignores_preference`` and ``dies`` hold for the next container only."""

    cards: dict[int, int]
    rng: random.Random
    held: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    ignores_preference: bool = False
    dies: bool = False
    source: str = "podresources"
    """What can be read of it: ``podresources``, ``checkpoint`` or nothing at all."""
    now_s: float = 0.0
    _pods: dict[str, PodModel] = field(default_factory=dict)
    _shown_at_s: dict[tuple[str, str], float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.all_ids = frozenset(i for card, units in self.cards.items() for i in device_ids_of_card(card, units))

    def free(self) -> frozenset[str]:
        """The ids that nobody holds."""
        return self.all_ids.difference(*self.held.values())

    def truth(self, uid: str) -> tuple[int, ...]:
        """The cards that a pod really has."""
        ids = [each for (holder, _), held in self.held.items() if holder == uid for each in held]
        return tuple(sorted({decode_device_id(each)[0] for each in ids}))

    def units_by_card(self) -> dict[int, int]:
        """Units that are really held; ids that containers of one pod share count once."""
        counts: dict[int, int] = {}
        for each in frozenset().union(*self.held.values()):
            card = decode_device_id(each)[0]
            counts[card] = counts.get(card, 0) + 1
        return counts

    async def admit(self, pod: PodModel, plugin: MemoryAllocator) -> str:
        """Admit a pod; returns "" or why it is refused, in which case it holds nothing.

        Raises:
            KubeletDied: it was told to; the pod is admitted again by the next kubelet.
        """
        self._pods[pod.uid] = pod
        reusable: set[str] = set()
        try:
            for container in pod.containers:
                ids = await self._choose(container, reusable, plugin)
                await plugin.allocate(device_ids(sorted(ids)))
                self._grant(pod, container, ids)
                reusable = reusable | ids if container.is_init else reusable - ids
        except GcushareError as error:
            self.end(pod.uid)
            return str(error)
        except KubeletDied:
            self.end(pod.uid)
            raise
        return ""

    def end(self, uid: str) -> None:
        """Free what a pod holds."""
        self._pods.pop(uid, None)
        for key in [key for key in self.held if key[0] == uid]:
            del self.held[key]
            del self._shown_at_s[key]

    async def fetch(self) -> KubeletAllocations:
        """What the plugin can read of it now; a ``KubeletRecordSource``."""
        if self.source not in ("podresources", "checkpoint"):
            raise RetryableError("neither podresources nor a checkpoint")
        record = KubeletAllocations(self.source)
        for (uid, name), ids in self.held.items():
            pod = self._pods[uid]
            is_init = any(container.name == name and container.is_init for container in pod.containers)
            if self.source == "checkpoint":
                record.add(uid, name, device_ids(sorted(ids)))
            elif not is_init and self._shown_at_s[uid, name] <= self.now_s:
                record.add(f"d/{pod.name}", name, device_ids(sorted(ids)))
        return record

    async def fetch_checkpoint(self) -> KubeletAllocations:
        """Its checkpoint, which a plugin asks about pods that podresources does not show."""
        record = KubeletAllocations("checkpoint")
        for (uid, name), ids in self.held.items():
            record.add(uid, name, device_ids(sorted(ids)))
        return record

    async def _choose(
        self, container: ContainerModel, reusable: Iterable[str], plugin: MemoryAllocator
    ) -> frozenset[str]:
        taken = frozenset(self._sample(sorted(reusable), container.units))
        if len(taken) == container.units:
            return taken
        free = self.free()
        if len(free) < container.units - len(taken):
            raise RetryableError(f"requested {container.units}, available {len(free)}")
        available = sorted(free | taken)
        self.rng.shuffle(available)
        request = PreferredRequest(device_ids(available), device_ids(sorted(taken)), container.units)
        preferred = frozenset(entry[2:].decode() for entry in await plugin.prefer(request))
        assert len(preferred) == container.units, "the preferred answer has another size"
        assert taken <= preferred <= frozenset(available), "the preferred answer has ids that were not offered"
        if self.dies:
            self.dies = False
            raise KubeletDied
        if self.ignores_preference:
            self.ignores_preference = False
            return taken | frozenset(self._sample(sorted(free), container.units - len(taken)))
        return preferred

    def _grant(self, pod: PodModel, container: ContainerModel, ids: frozenset[str]) -> None:
        others = [held for (uid, _), held in self.held.items() if uid != pod.uid]
        assert ids.isdisjoint(frozenset().union(*others)), "an id was given twice"
        assert len({decode_device_id(each)[0] for each in ids}) == 1, "a container was granted ids of several cards"
        self.held[pod.uid, container.name] = ids
        self._shown_at_s[pod.uid, container.name] = self.now_s + self.rng.uniform(*SHOWN_AFTER_S)

    def _sample(self, ids: Sequence[str], count: int) -> list[str]:
        return self.rng.sample(ids, min(count, len(ids)))
