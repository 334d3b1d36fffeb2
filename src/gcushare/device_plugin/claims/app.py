"""Cards as claims: the driver that the kubelet and the scheduler see, built from the settings."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path

from gcushare.cards.health import CardsSnapshot
from gcushare.cards.libraries import PCI_DEVICES
from gcushare.cards.pci import PciBus
from gcushare.cards.process_owners import ProcessOwners
from gcushare.core.backoff import Backoff, BackoffPolicy
from gcushare.core.errors import DeviceError, GcushareError, RemoteContractError
from gcushare.core.log_fields import fields
from gcushare.core.wording import some_names
from gcushare.device_plugin.adapters import HostAdapters
from gcushare.device_plugin.claims.claim_checks import ClaimChecks
from gcushare.device_plugin.claims.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.device_plugin.claims.claim_pods import ClaimPods
from gcushare.device_plugin.claims.node_agent import ClaimsAgent
from gcushare.device_plugin.claims.prepared_claims import PreparedClaims, list_claims
from gcushare.device_plugin.claims.registration import Registration
from gcushare.device_plugin.claims.reporting import ClaimsMetrics, ObservedClaims, describe, make_health
from gcushare.device_plugin.claims.service import ClaimsService
from gcushare.device_plugin.claims.slice_plan import SlicePlan
from gcushare.device_plugin.claims.slice_publisher import SlicePublisher
from gcushare.device_plugin.node.held_cards import find_claimed_cards
from gcushare.device_plugin.node.publisher import CardsPublisher
from gcushare.device_plugin.plugin_settings import PluginSettings
from gcushare.device_plugin.reporting.own_devices import OwnDevicesReport
from gcushare.device_plugin.way import FACTS_TIMEOUT_S, Way
from gcushare.kube.client import KubeClient
from gcushare.kube.reflector import Reflector
from gcushare.kube.resources import RESOURCE_SLICES, Selector
from gcushare.node.api_server import SliceDrivers
from gcushare.node.cdi import CdiSpecFile, CdiSpecPublisher
from gcushare.node.driver_limits.pods import HASTE_S, DriverLimits
from gcushare.node.grant_form import GrantForm
from gcushare.node.node_settings import Strategy
from gcushare.node.pod_resources import list_claims_of_containers
from gcushare.node.status import REGISTRATION_AGE_S
from gcushare.runtime.health import Heartbeat
from gcushare.runtime.shutdown import RootTasks
from gcushare.wire.dra.checkpoint import PreparedClaim
from gcushare.wire.dra.slices import RESOURCE_SLICE, ResourceSlice

logger = logging.getLogger(__name__)

MAX_NAMES = 10
"""Claims named in one message."""


class ClaimsApp(Way):
    """One node's cards as claims for one vendor; ``observed`` is the state that it shows."""

    def __init__(
        self,
        settings: PluginSettings,
        client: KubeClient,
        metrics: ClaimsMetrics | None = None,
        adapters: HostAdapters | None = None,
    ) -> None:
        super().__init__(settings, client, metrics or ClaimsMetrics(), adapters)
        cards, kubelet, vendor, node = settings.cards, settings.kubelet, self._vendor, self._node_name
        strategies = kubelet.device_list_strategy
        self._driver = driver = vendor.claims.driver
        self._pod_resources = kubelet.pod_resources_socket
        self._recovery = "the checkpoint was not read yet"
        rng = self._adapters.rng
        form = GrantForm(vendor, strategies, self._limiter, kubelet.driver_dirs)
        directory, cdi_files = kubelet.driver_dir(driver), ClaimCdiFiles(kubelet.cdi_dir, driver)
        self._prepared = PreparedClaims(form, node, CheckpointFile(directory), cdi_files)
        self._pods = ClaimPods(self._prepared, cards.claims_unit, node)
        self._publisher = SlicePublisher(client, driver, node, rng)
        self._cdi = CdiSpecPublisher(CdiSpecFile(kubelet.cdi_dir, vendor), is_wanted=Strategy.CDI in strategies)
        self._writer = CardsPublisher(vendor, node, client, rng=rng, pods_per_count=0)
        self._agent: ClaimsAgent = ClaimsAgent(
            cards,
            SlicePlan(vendor, node, PciBus(PCI_DEVICES).root),
            self._prepared,
            self._publisher,
            self._cdi,
            self._writer,
            self._monitor.hold,
        )
        self._follow_pods(
            self._pods,
            lambda: self._agent.inventory,
            gives_cards=lambda: not self._agent.problem,
        )
        self._registration = self._make_registration(directory)
        self._checks = ClaimChecks(
            self._prepared,
            self._pods,
            client,
            claims_of_containers=lambda: list_claims_of_containers(self._pod_resources),
            running=self._read_running,
            announce=self._announce,
            clock=self._adapters.clock.monotonic,
        )
        # A claim names its first pod alone: the pods themselves are followed where each of them is limited or measured.
        is_followed = self._pod_use is not None or self._driver_limits is not None
        own_devices = OwnDevicesReport(self._vendor, None, self._announcer)
        self._pod_watch = self._watch_pods(*([self._pods] if is_followed else []), own_devices)
        self._node_watch = self._watch_node(self._agent)
        self._slice_drivers = SliceDrivers(client, node)
        self._slice_watch = self._watch_slices()
        self.observed = self._observe()
        self.metrics.follow(self.observed)
        health = make_health(self.observed, lambda: self._monitor.polls, settings.cards.poll_interval)
        self._make_pages(health, lambda: describe(self.observed))

    def _watch_slices(self) -> Reflector[ResourceSlice]:
        return Reflector(
            self._client,
            RESOURCE_SLICES,
            self._publisher,
            decode=RESOURCE_SLICE.read,
            selector=Selector(fields=f"spec.nodeName={self._node_name},spec.driver={self._driver}"),
            clock=self._adapters.clock,
            rng=self._adapters.rng,
        )

    @property
    def holders(self) -> str:
        if self._recovery:
            return self._recovery
        return some_names(sorted(claim.key for claim in self._prepared.claims.values()), MAX_NAMES)

    async def find_holders(self) -> str:
        """Claims that are prepared, and those that were allocated before the slices were withdrawn."""
        if self.holders:
            return self.holders
        if self._publisher.published or not self._publisher.is_current:
            return "the ResourceSlices are not withdrawn yet"
        try:
            found = await list_claims(self._client, self._driver, self._node_name)
        except GcushareError as error:
            return f"which claims are allocated is not known: {error}"
        return some_names(sorted(f"{each.metadata.namespace}/{each.metadata.name}" for each in found), MAX_NAMES)

    def _observe(self) -> ObservedClaims:
        return ObservedClaims(
            vendor=self._vendor.name,
            node=self._node_name,
            node_group=self._settings.kubelet.node_group or "",
            inventory=lambda: self._agent.inventory,
            pods=self._pods,
            pod_use=self._pod_use,
            over_use=self._over_use,
            mps=self._mps,
            driver_limits=self._driver_limits,
            agent=self._agent,
            checks=self._checks,
            prepared=self._prepared,
            publisher=self._publisher,
            writer=self._writer,
            registration=self._registration,
            cdi=self._cdi,
            cards=lambda: self._monitor.snapshot,
            recovery=lambda: self._recovery,
        )

    def _offer(self, cards: CardsSnapshot) -> None:
        self._agent.on_cards(cards)

    def _make_registration(self, directory: Path) -> Registration:
        """Build the sockets through which the kubelet finds and calls the driver; nothing is served yet."""
        service = ClaimsService(
            self._prepared,
            self._client,
            inventory=self._agent.inventory_to_grant,
            claims_of_containers=lambda: list_claims_of_containers(self._pod_resources),
            keep_limits=self._keep_limits if self._driver_limits is not None else None,
            pool=self._node_name,
            clock=time.perf_counter,
            observe=self.metrics.observe_call,
        )
        driver = self._driver
        return Registration(
            driver,
            socket=directory / "dra.sock",
            registry_socket=self._settings.kubelet.plugins_registry / f"{driver}-reg.sock",
            handler=service.handler(),
            pulse=Heartbeat("registration", REGISTRATION_AGE_S),
        )

    async def _keep_limits(self, claim: PreparedClaim) -> None:
        """Limit the memory of the claim's pods, before their containers are created; of several one suffices.

        The kubelet asks once for a claim, when the first of its pods comes.

        Raises:
            DeviceError: it cannot be limited.
        """
        assert self._driver_limits is not None
        failures: list[DeviceError] = []
        holders = [each for each in self._pods.entries.values() if claim in each.claims]
        for holder in holders:
            try:
                await self._driver_limits.ensure(holder.ref.uid)
            except DeviceError as error:
                failures.append(error)
        if failures and len(failures) == len(holders):
            raise failures[0]

    async def _follow_sharers(self, limits: DriverLimits) -> None:
        """Limit the pods that come to use a prepared claim, for which the kubelet does not ask again."""
        while True:
            await self._pods.changed.wait()
            self._pods.changed.clear()
            await self._checks.ask_users()
            for uid in self._pods.entries:
                limits.expect(uid)
            await asyncio.sleep(HASTE_S)

    def _start(self, tasks: RootTasks) -> None:
        tasks.start("node watch", self._node_watch.run())
        tasks.start("slice watch", self._slice_watch.run())
        tasks.start("slices", self._publisher.run())
        tasks.start("inventory", self._writer.run())
        tasks.start("driver", self._serve_claims())
        if self._driver_limits is not None:
            tasks.start("pods that share a claim", self._follow_sharers(self._driver_limits))
        tasks.start("pod watch", self._pod_watch.run())
        self._over_use.start(tasks)

    async def _serve_claims(self) -> None:
        """Serve only what is known: the checkpoint first, then the cards, then registration and slices.

        The other drivers come before the cards: known cards are published.
        """
        await self._load_checkpoint()
        await self._learn_numbers()
        self._agent.on_drivers(await self._slice_drivers.read())
        await self._read_cards()
        self._cards_changed(self._monitor.snapshot)
        async with asyncio.TaskGroup() as group:
            drivers = self._agent.follow_drivers(self._slice_drivers, self._announce)
            group.create_task(drivers, name="other drivers")
            group.create_task(self._monitor.run(), name="cards")
            group.create_task(self._registration.run(), name="registration")
            group.create_task(self._checks.run(), name="orphaned claims")

    async def _load_checkpoint(self) -> None:
        """Read the checkpoint, or rebuild an unreadable one from the API server's claims, however long that takes.

        Until then nothing is served: the kubelet waits for a driver that is away.
        """
        backoff = Backoff(BackoffPolicy(), self._adapters.rng)
        while True:
            try:
                await self._load_or_rebuild()
            except GcushareError as error:
                delay_s = backoff.next_delay_s(error)
                self._recovery = str(error)
                logger.error("claims not known; will retry %s", fields(reason=error, delay_s=round(delay_s, 1)))
                self._registration.pulse.beat()
                await asyncio.sleep(delay_s)
            else:
                self._recovery = ""
                return

    async def _learn_numbers(self) -> None:
        """Have the cards of prepared claims, and those that were published, keep their numbers."""
        beat = self._registration.pulse.beat
        await self._prepared.wait_for_numbers(self._node_watch.synced, FACTS_TIMEOUT_S, beat)
        self._monitor.hold(find_claimed_cards(self._prepared.given(), self._writer.former))

    async def _load_or_rebuild(self) -> None:
        try:
            self._prepared.load()
        except RemoteContractError as error:
            self._announce("CheckpointUnreadable", f"{error}; it is rebuilt from the claims on this node")
            found = await list_claims(self._client, self._driver, self._node_name)
            aside = self._prepared.rebuild(found)
            logger.error(
                "the checkpoint was unreadable and was rebuilt %s",
                fields(reason=error, copy=aside, claims=len(self._prepared.claims)),
            )

    async def _read_running(self) -> frozenset[str] | None:
        """The pods with processes on this machine, if it may be looked at."""
        if self._pod_use is None:
            return None
        return await asyncio.to_thread(ProcessOwners(self._settings.cards.proc_root).running_pods)

    def _announce(self, reason: str, message: str) -> None:
        logger.warning("%s", message)
        self._announcer.about_node(reason, message, warning=True)
