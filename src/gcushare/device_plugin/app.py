"""Cards as resources: the kubelet's device plugin interface, built from the settings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from functools import partial

from gcushare.cards.health import CardsSnapshot
from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.cards import SERVES_MEMORY, SERVES_WHOLE
from gcushare.core.errors import DeviceError
from gcushare.core.log_fields import fields
from gcushare.core.wording import some_names
from gcushare.device_plugin.adapters import HostAdapters
from gcushare.device_plugin.allocation.allocator import CardAllocator
from gcushare.device_plugin.allocation.pre_start import PreStart
from gcushare.device_plugin.kubelet.checkpoint import MissingCheckpointError
from gcushare.device_plugin.kubelet.conflicts import ConflictSearch
from gcushare.device_plugin.kubelet.device_list import DeviceList
from gcushare.device_plugin.kubelet.podresources import PodResourcesReader
from gcushare.device_plugin.kubelet.registration import Endpoint
from gcushare.device_plugin.kubelet.server import DevicePluginService
from gcushare.device_plugin.node.agent import NodeAgent
from gcushare.device_plugin.node.held_cards import find_held_cards
from gcushare.device_plugin.node.inventory import MAX_NAMES
from gcushare.device_plugin.node.parts import Dependencies
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.device_plugin.pods.allocations import CHECKPOINT, KubeletAllocations
from gcushare.device_plugin.reporting.own_devices import OwnDevicesReport
from gcushare.device_plugin.reporting.resources import ObservedResources, PluginMetrics, describe, make_health
from gcushare.device_plugin.way import FACTS_TIMEOUT_S, Way
from gcushare.kube.client import KubeClient
from gcushare.node.api_server import SliceDrivers
from gcushare.node.status import REGISTRATION_AGE_S
from gcushare.runtime.health import Heartbeat
from gcushare.runtime.shutdown import RootTasks

logger = logging.getLogger(__name__)

_OFFER_WAIT_S = 5.0
ANSWER_BYTES_PER_LIST_BYTE = 4
"""podresources repeats the resource's name for each id, so it takes about 36 bytes; the device list takes 16."""


class PluginApp(Way):
    """One node's cards as resources for one vendor. ``observed`` is the state that it shows.

    ``facts_timeout_s`` is how long the start waits for the API server. ``adapters`` default to those of the machine.
    """

    facts_timeout_s = FACTS_TIMEOUT_S

    def __init__(
        self,
        settings: PluginSettings,
        client: KubeClient,
        metrics: PluginMetrics | None = None,
        adapters: HostAdapters | None = None,
    ) -> None:
        super().__init__(settings, client, metrics or PluginMetrics(), adapters)
        clock = self._adapters.clock
        self._reader = self._adapters.record or PodResourcesReader(
            self._vendor,
            settings.kubelet,
            clock=clock.monotonic,
            answer_limit_bytes=ANSWER_BYTES_PER_LIST_BYTE * settings.kubelet.kubelet_message_limit,
        )
        dependencies = Dependencies(
            source=self._reader,
            client=client,
            announcer=self._announcer,
            clock=clock,
            rng=self._adapters.rng,
            hold_numbers=self._monitor.hold,
            limiter=self._limiter,
        )
        self._numbers_problem = "the kubelet's checkpoint was not read yet"
        self._agent: NodeAgent = NodeAgent(settings, dependencies)
        self._parts = self._agent.parts
        self._follow_pods(
            self._parts.store,
            lambda: self._agent.inventory,
            gives_cards=lambda: not any(endpoint.problem for endpoint in self._endpoints.values()),
        )
        self._conflicts = ConflictSearch(settings, self._parts, SliceDrivers(client, self._node_name), clock.monotonic)
        self._endpoints = {part: self._make_endpoint(part) for part in settings.cards.mode.parts}
        own_devices = OwnDevicesReport(self._vendor, settings.cards.mode, self._announcer)
        self._pods = self._watch_pods(self._agent, own_devices)
        self._node = self._watch_node(self._agent)
        self.observed = self._observe()
        self.metrics.follow(self.observed)
        health = make_health(self.observed, lambda: self._monitor.polls, settings.cards.poll_interval)
        self._make_pages(health, lambda: describe(self.observed))

    @property
    def holders(self) -> str:
        return some_names(self._agent.holders(), MAX_NAMES)

    async def find_holders(self) -> str:
        if not self._pods.synced.is_set():
            return "this node's pods were not listed yet"
        await self._parts.reconciler.check()
        return self._parts.reconciler.problem or self.holders

    def _make_endpoint(self, part: str) -> Endpoint:
        """Build the endpoint for one mode: memory or whole cards."""
        parts, vendor, directory = self._parts, self._vendor, self._settings.kubelet.device_plugin_dir
        devices: DeviceList = parts.memory_devices
        allocator: CardAllocator = parts.allocator
        resource, socket = vendor.memory_resource, vendor.plugin_socket
        if part == SERVES_WHOLE:
            devices, allocator = parts.whole_devices, parts.whole_allocator
            resource, socket = vendor.whole_card_resource, vendor.whole_card_socket
        pre_start = None
        if self._driver_limits is not None and part == SERVES_MEMORY:
            pre_start = PreStart(
                self._driver_limits, parts.store, parts.reconciler, self._reader, lambda: self._agent.inventory
            )
        service = DevicePluginService(
            devices, allocator, clock=time.perf_counter, observe=self.metrics.observe_call, pre_start=pre_start
        )
        return Endpoint(
            resource,
            directory,
            socket,
            service.handler(),
            devices,
            find_conflict=partial(self._conflicts.find, part),
            on_registered=parts.reconciler.check_soon,
            pre_start=pre_start is not None,
            pulse=Heartbeat(f"{part} registration", REGISTRATION_AGE_S, self._adapters.clock.monotonic),
            sockets=self._adapters.sockets,
            rng=self._adapters.rng,
        )

    def _offer(self, cards: CardsSnapshot) -> None:
        if self._numbers_problem:
            self._agent.numbers_unknown(self._numbers_problem)
            return
        self._agent.on_cards_change(cards)

    def _observe(self) -> ObservedResources:
        parts = self._parts
        return ObservedResources(
            vendor=self._vendor.name,
            node=self._node_name,
            node_group=self._settings.kubelet.node_group or "",
            inventory=lambda: None if (found := self._agent.inventory) is None else self._agent.describe(found),
            pods=parts.store,
            agent=self._agent,
            store=parts.store,
            reconciler=parts.reconciler,
            endpoints=self._endpoints,
            publisher=parts.publisher,
            cdi=parts.cdi,
            cards=lambda: self._monitor.snapshot,
            watch_age_s=lambda: self._pods.age_s,
            pod_use=self._pod_use,
            over_use=self._over_use,
            mps=self._mps,
            driver_limits=self._driver_limits,
        )

    def _start(self, tasks: RootTasks) -> None:
        tasks.start("pod watch", self._pods.run())
        tasks.start("node watch", self._node.run())
        tasks.start("cards", self._run_cards())
        self._over_use.start(tasks)
        tasks.start("kubelet record", self._parts.reconciler.run_checks())
        tasks.start("pod records", self._parts.reconciler.writer.run())
        tasks.start("node publishing", self._parts.publisher.run())
        for part, endpoint in self._endpoints.items():
            tasks.start(f"{part} registration", self._register(endpoint))

    async def _run_cards(self) -> None:
        await self._wait_for_facts()
        backoff = Backoff(BackoffPolicy())
        while not await self._learn_numbers():
            await self._read_cards()
            await asyncio.sleep(backoff.next_delay_s())
        await self._read_cards()
        self._cards_changed(self._monitor.snapshot)
        await self._monitor.run()

    async def _learn_numbers(self) -> bool:
        """Have the cards that pods hold keep their numbers; False if it cannot be read which these are."""
        kept = KubeletAllocations(CHECKPOINT)
        if self._follows_cards:
            try:
                kept = await self._reader.fetch_checkpoint()
            except MissingCheckpointError as error:
                logger.info("numbers of cards are read from records %s", fields(reason=error))
            except DeviceError as error:
                self._numbers_problem = (
                    f"{error}: which cards the pods of this node hold is not known, so no card is offered; the kubelet "
                    "writes the file again, and if it does not, drain the node, remove the file and restart the kubelet"
                )
                return False
        self._numbers_problem = ""
        store, former = self._parts.store, self._parts.publisher.former
        self._monitor.hold(find_held_cards(store, kept, self._vendor, former))
        return True

    async def _wait_for_facts(self) -> None:
        """Wait, for a limited time, for the Node (cordons, previous unit), the pods and the kubelet's allocations.

        The first device list must come after them: a pod that is added to the store while the kubelet already allocates
        might be mistaken for another one.
        """
        await self._parts.reconciler.check()
        try:
            async with asyncio.timeout(self.facts_timeout_s):
                await self._node.synced.wait()
                await self._pods.synced.wait()
        except TimeoutError:
            known = {"node": self._node.synced.is_set(), "pods": self._pods.synced.is_set()}
            missing = ",".join(what for what, is_known in known.items() if not is_known)
            logger.warning(
                "starting without what the API server knows %s",
                fields(missing=missing, node=self._node_name, waited_s=self.facts_timeout_s),
            )
        await self._parts.reconciler.check()

    async def _register(self, endpoint: Endpoint) -> None:
        """Register once there is a device list, and stay registered."""
        while not self._agent.offered.is_set():
            endpoint.pulse.beat()
            # Not wait_for: up to Python 3.11 it may swallow a cancellation that arrives together with the event.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_OFFER_WAIT_S):
                    await self._agent.offered.wait()
        await endpoint.run()
