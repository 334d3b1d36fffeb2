"""The device manager's decisions at admission: which ids a container gets, and asking its plugin for them.

It reaches plugins and disk through what it is given: gRPC and files on a node, values in the simulation and in bursts.
Source of the flow and its words: the stock kubelet, Kubernetes 1.36.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

from gcushare.core.errors import GcushareError, Refused
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare_playground.kubelet.books import DeviceBooks
from gcushare_playground.kubelet.checkpoint import Checkpoint
from gcushare_playground.kubelet.faults import KubeletFaults
from gcushare_playground.kubelet.podspec import ContainerSpec, Pod

logger = logging.getLogger(__name__)


class AllocationRefused(Refused):
    """A container cannot have its devices."""

    reason = "UnexpectedAdmissionError"

    @property
    def message(self) -> str:
        """What the pod's status says where this ends its admission."""
        return f"Allocate failed due to {self}, which is unexpected"


class PluginCallError(GcushareError):
    """A call to a plugin failed; the message is worded as the kubelet words it in a pod's status."""


class Plugin(Protocol):
    """A registered plugin. Every call raises PluginCallError where the plugin refuses or is gone."""

    @property
    def options(self) -> pb.DevicePluginOptions:
        """What the plugin said of itself when it registered."""
        ...

    async def get_preferred(self, available: Collection[str], must_include: Collection[str], size: int) -> set[str]:
        """Which of the available ids the plugin would rather see used."""
        ...

    async def allocate(self, ids: Collection[str]) -> bytes:
        """Have exactly these ids granted to one container; the ContainerAllocateResponse as bytes."""
        ...

    async def pre_start(self, ids: Collection[str]) -> None:
        """Tell the plugin that a container with these ids is about to start."""
        ...


@dataclass(frozen=True, slots=True)
class NodePods:
    """What the allocator may ask about the node's pods."""

    active_uids: Callable[[], Set[str]]
    """Pods that may still use their devices."""
    are_known: Callable[[], bool] = lambda: True
    """Whether the first list of pods has been admitted since the start; before that, no one is known to be gone."""
    ran_before_start: Callable[[str, str], bool] = lambda _uid, _container: False
    """Whether a container was found running when the kubelet started."""


@dataclass(slots=True)
class _Choice:
    """The ids picked so far for one container."""

    needed: int
    picked: set[str] = field(default_factory=set)


class DeviceAllocator:
    """Chooses ids, has them granted and records them, one container at a time."""

    def __init__(
        self,
        books: DeviceBooks,
        plugins: Mapping[str, Plugin],
        *,
        pods: NodePods,
        faults: KubeletFaults,
        rng: random.Random,
        asks_preferred: bool = True,
        on_granted: Callable[[str, str], None],
        save: Callable[[Checkpoint], None],
    ) -> None:
        self._asks_preferred = asks_preferred
        self._on_granted = on_granted
        self._turn = asyncio.Lock()
        self._books = books
        self._plugins = plugins
        self._save = save
        self._pods = pods
        self._faults = faults
        self._rng = rng
        self._reusable_uid = ""
        self._reusable: dict[str, set[str]] = {}

    def release_inactive(self) -> None:
        """Free the ids of pods that are gone or finished. The checkpoint file keeps them until its next writing."""
        if not self._pods.are_known():
            return
        gone = self._books.holders() - self._pods.active_uids()
        if gone:
            logger.info("devices released pods=%s", ",".join(sorted(gone)))
            self._books.remove_pods(gone)

    async def allocate(self, pod: Pod, container: ContainerSpec) -> None:
        """Give one container its devices; called for a pod's init containers in order, then its app containers.

        Raises:
            AllocationRefused: not enough, not healthy, not registered, or a plugin refused.
        """
        async with self._turn:
            if self._reusable_uid != pod.uid:
                self._reusable_uid, self._reusable = pod.uid, {}
            await self._allocate_container(pod, container)
            self._keep_reusable(pod, container)

    def _keep_reusable(self, pod: Pod, container: ContainerSpec) -> None:
        """Offer an ordinary init container's ids to the pod's next ones; what others take is theirs for good."""
        for entry in self._books.container_entries(pod.uid, container.name):
            reusable = self._reusable.setdefault(entry.resource, set())
            if container.ends_before_the_others:
                reusable |= entry.ids
            else:
                reusable -= entry.ids

    async def prepare_start(self, pod: Pod, container: ContainerSpec) -> None:
        """Do what precedes every (re)start of a container: stored answers are reused, plugins that want it are called.

        Raises:
            AllocationRefused: a plugin refused, or lost devices could not be allocated again.
        """
        is_missing = False
        for resource in sorted(container.limits):
            if not self._books.is_plugin_resource(resource) or container.limits[resource] == 0:
                continue
            held = self._books.held_ids(pod.uid, container.name, resource)
            endpoint = self._plugins.get(resource)
            if endpoint is not None and endpoint.options.pre_start_required:
                await _pre_start(endpoint, resource, held)
            is_missing = is_missing or held is None
        if is_missing:
            logger.warning("devices not recorded, allocating again pod=%s container=%s", pod.full_name, container.name)
            await self.allocate(pod, container)

    async def _allocate_container(self, pod: Pod, container: ContainerSpec) -> None:
        is_released = False
        is_changed = False
        for resource in sorted(container.limits):
            if not self._books.is_plugin_resource(resource):
                continue
            if not is_released:
                self.release_inactive()
                is_released = True
            ids = await self._choose(pod, container, resource)
            if ids:
                await self._grant(pod, container, resource, ids)
                is_changed = True
        if is_changed:
            self._save(self._books.checkpoint())

    async def _grant(self, pod: Pod, container: ContainerSpec, resource: str, ids: set[str]) -> None:
        endpoint = self._plugins.get(resource)
        try:
            if endpoint is None:
                raise AllocationRefused(f"unknown Device Plugin {resource}")
            answer = await endpoint.allocate(list(ids))
        except BaseException as error:
            self._books.recount()
            if isinstance(error, PluginCallError):
                raise AllocationRefused(str(error)) from error
            raise
        self._books.insert(pod.uid, container.name, resource, ids, answer)
        self._on_granted(pod.uid, container.name)
        logger.info(
            "devices allocated pod=%s uid=%s container=%s resource=%s count=%d",
            *(pod.full_name, pod.uid, container.name, resource, len(ids)),
        )

    async def _choose(self, pod: Pod, container: ContainerSpec, resource: str) -> set[str]:
        """Return the ids to ask the plugin for, none when nothing is to be asked."""
        required = int(container.limits[resource])
        held = self._books.held_ids(pod.uid, container.name, resource)
        if held is not None and len(held) != required:
            raise AllocationRefused(
                f'pod "{pod.uid}" container "{container.name}" changed request for resource "{resource}" '
                f"from {len(held)} to {required}"
            )
        if not self._pods.are_known() and self._pods.ran_before_start(pod.uid, container.name):
            return set()
        self._check_health(resource, held or frozenset())
        if held is not None or required == 0:
            return set()
        choice = _Choice(required)
        try:
            await self._fill(choice, resource, required)
        except BaseException:
            self._books.recount()
            raise
        return choice.picked

    def _check_health(self, resource: str, held: frozenset[str]) -> None:
        healthy = self._books.healthy.get(resource)
        if healthy is None:
            raise AllocationRefused(f"cannot allocate unregistered device {resource}")
        if not healthy:
            raise AllocationRefused(f"no healthy devices present; cannot allocate unhealthy devices {resource}")
        if not held <= healthy:
            raise AllocationRefused(
                f"previously allocated devices are no longer healthy; cannot allocate unhealthy devices {resource}"
            )

    async def _fill(self, choice: _Choice, resource: str, required: int) -> None:
        """Pick ids of earlier init containers first, then what the plugin prefers, then any free ones."""
        if self._take(choice, resource, self._reusable.get(resource, set())):
            return
        available = self._books.free(resource)
        if len(available) < choice.needed:
            raise AllocationRefused(
                f"requested number of devices unavailable for {resource}. "
                f"Requested: {choice.needed}, Available: {len(available)}"
            )
        preferred = await self._ask_preferred(resource, available | choice.picked, choice.picked, required)
        if self._faults.ignore_preferred:
            # The ids furthest from the answer, as far as there are others.
            preferred = available - preferred
        if not self._take(choice, resource, preferred & available):
            self._take(choice, resource, available)

    async def _ask_preferred(
        self, resource: str, available: Collection[str], must_include: Collection[str], size: int
    ) -> set[str]:
        endpoint = self._plugins.get(resource)
        if endpoint is None:
            raise AllocationRefused(f"endpoint not found in cache for a registered resource: {resource}")
        if not (self._asks_preferred and endpoint.options.get_preferred_allocation_available):
            return set()
        try:
            return await endpoint.get_preferred(list(available), list(must_include), size)
        except PluginCallError as error:
            raise AllocationRefused(f"device plugin GetPreferredAllocation rpc failed with err: {error}") from error

    def _take(self, choice: _Choice, resource: str, ids: Set[str]) -> bool:
        """Move ids into the choice until it is full; which ones is random where there are more than needed."""
        fresh = ids - choice.picked
        if len(fresh) > choice.needed:
            fresh = set(self._rng.sample(sorted(fresh), choice.needed))
        choice.picked |= fresh
        choice.needed -= len(fresh)
        self._books.allocated.setdefault(resource, set()).update(fresh)
        return choice.needed == 0


async def _pre_start(endpoint: Plugin, resource: str, held: frozenset[str] | None) -> None:
    if held is None:
        raise AllocationRefused(f"no devices found allocated in local cache for resource {resource}")
    try:
        await endpoint.pre_start(list(held))
    except PluginCallError as error:
        raise AllocationRefused(f"device plugin PreStartContainer rpc failed with err: {error}") from error
