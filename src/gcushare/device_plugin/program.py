"""The program of one node: serves its HTTP port, starts one way of giving out cards, and changes to the other."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from aiohttp import web

from gcushare._version import __version__
from gcushare.cluster.connection import open_cluster
from gcushare.core.cards import SERVES_CLAIMS
from gcushare.core.errors import DeviceError, GcushareError, RemoteContractError, RetryableError
from gcushare.core.log_fields import fields
from gcushare.core.wording import some_names
from gcushare.device_plugin.adapters import HostAdapters
from gcushare.device_plugin.app import PluginApp
from gcushare.device_plugin.claims.app import ClaimsApp
from gcushare.device_plugin.claims.claim_files import CheckpointFile, ClaimCdiFiles
from gcushare.device_plugin.kubelet.podresources import PodResourcesReader
from gcushare.device_plugin.plugin_settings import COMPONENT, PluginSettings
from gcushare.device_plugin.way import Way
from gcushare.kube.client import KubeClient
from gcushare.kube.resources import NODES, Selector
from gcushare.node.pod_resources import list_claiming_pods
from gcushare.runtime.http.server import RunningServer
from gcushare.runtime.metrics import CertificateCollector
from gcushare.runtime.shutdown import REQUESTS_DRAIN_S, Shutdown
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.nodes import decode_inventory
from gcushare.wire.objects import Node

logger = logging.getLogger(__name__)

NODE_TIMEOUT_S = 10.0
"""How long the choice of the first way waits for the API server, if the node itself does not say which it is."""
_MAX_NAMES = 5


@dataclass(eq=False)
class NodeProgram:
    """One node's plugin for one vendor. ``server`` is set once it listens; ``way`` is the one that runs.

    The first way is the one in which pods hold cards already, else the one that the Node's inventory names, else the
    one of its label. ``way`` may be given, as tests do. ``check_s``: between two questions whether a way that is to be
    left still has holders.
    """

    check_s = 2.0

    settings: PluginSettings
    client: KubeClient
    adapters: HostAdapters = field(default_factory=HostAdapters)
    way: Way | None = None
    server: RunningServer | None = None

    async def run(self, shutdown: Shutdown) -> int:
        """Run until the shutdown. Returns the exit code."""
        server = self.server = await self.adapters.serve(self._web(), self.settings.serve)
        logger.info("serving %s", fields(url=server.url, version=__version__, node=self.settings.kubelet.node_name))
        try:
            if self.way is None:
                choosing = asyncio.create_task(self._choose(), name="first way")
                stopped = asyncio.create_task(shutdown.wait(), name="shutdown")
                await asyncio.wait((choosing, stopped), return_when=asyncio.FIRST_COMPLETED)
                stopped.cancel()
                if not choosing.done():
                    choosing.cancel()
                    return 0
                self.way = self._make(choosing.result())
            while True:
                self.way.metrics.registry.register(CertificateCollector([server]))
                await self._run_way(self.way, shutdown)
                if shutdown.is_requested:
                    return 0
                serves_claims = isinstance(self.way, ClaimsApp)
                # Cards may have been given in the last moment before its sockets were closed.
                is_free = not self.way.holders
                self.way = self._make(serves_claims != is_free)
        finally:
            await server.stop(REQUESTS_DRAIN_S)

    def observe_request(self, verb: str, resource: str, code: int) -> None:
        """Count a request to the API server."""
        if self.way is not None:
            self.way.metrics.observe_request(verb, resource, code)

    def _web(self) -> web.Application:
        async def answer(request: web.Request) -> web.StreamResponse:
            if self.way is None:
                # The choice has a time limit of its own.
                is_live = request.path == "/healthz"
                return web.json_response({"status": "starting"}, status=200 if is_live else 503)
            return await self.way.pages[request.path](request)

        app = web.Application()
        app.add_routes([web.get(path, answer) for path in ("/healthz", "/readyz", "/metrics", "/status")])
        return app

    def _make(self, serves_claims: bool) -> Way:
        make = ClaimsApp if serves_claims else PluginApp
        way = make(self.settings, self.client, adapters=self.adapters)
        logger.info("cards are given as %s", "claims" if serves_claims else "resources")
        return way

    async def _run_way(self, way: Way, shutdown: Shutdown) -> None:
        """Run it until the shutdown, or until the other way is wanted and nothing holds cards in this one."""
        stop = Shutdown()

        async def pass_on() -> None:
            await shutdown.wait()
            stop.request(shutdown.reason)

        async def leave() -> None:
            said = ""
            while True:
                await asyncio.sleep(self.check_s)
                if not way.leaving or not (self._can_serve_claims or isinstance(way, ClaimsApp)):
                    continue
                found = await way.find_holders()
                if not found and way.leaving:
                    stop.request("the node's cards are given in the other way from now on")
                    return
                if found != said:
                    logger.info("the way of giving out cards is not changed yet %s", fields(reason=found))
                said = found

        async with asyncio.TaskGroup() as group:
            helpers = [group.create_task(pass_on(), name="shutdown"), group.create_task(leave(), name="change of way")]
            await way.run(stop)
            for task in helpers:
                task.cancel()

    @property
    def _can_serve_claims(self) -> bool:
        """Whether the kubelet's folders for drivers are here; a chart without claims does not mount them."""
        return self.settings.kubelet.plugins_registry.is_dir()

    async def _choose(self) -> bool:
        """Whether claims are served first.

        Raises:
            DeviceError: pods hold claims and this program cannot serve them.
        """
        pods = await self._list_claiming_pods()
        if not self._can_serve_claims:
            if pods:
                raise DeviceError(
                    f"pods hold claims on this node's cards ({some_names(pods, _MAX_NAMES)}), and claims cannot be "
                    f"served here: {self.settings.kubelet.plugins_registry} is not there; install with "
                    "claims.enabled=true, or delete these pods"
                )
            return False
        if pods:
            return True
        if await asyncio.to_thread(self._has_prepared):
            return True
        node = await self._read_node()
        if node is not None and self._had_served_claims(node):
            return True
        if await self._has_unit_holders():
            return False
        return node is not None and node.metadata.labels.get(SERVE_LABEL) == SERVE_CLAIMS

    async def _list_claiming_pods(self) -> tuple[str, ...]:
        socket = self.settings.kubelet.pod_resources_socket
        try:
            return await list_claiming_pods(socket, self.settings.cards.vendor.claims.driver)
        except (RetryableError, RemoteContractError) as error:
            logger.warning("prepared claims on this node are not known %s", fields(reason=error))
            return ()

    def _has_prepared(self) -> bool:
        """Whether claims are prepared, by the checkpoint; one that cannot be read may have some."""
        kubelet, driver = self.settings.kubelet, self.settings.cards.vendor.claims.driver
        try:
            found = CheckpointFile(kubelet.driver_dir(driver)).read()
            return bool(found) or (found is None and ClaimCdiFiles(kubelet.cdi_dir, driver).exist())
        except RemoteContractError:
            return True
        except DeviceError as error:
            logger.warning("whether claims are prepared is not known %s", fields(reason=error))
            return False

    async def _read_node(self) -> Node | None:
        name = self.settings.kubelet.node_name
        try:
            async with asyncio.timeout(NODE_TIMEOUT_S):
                # By a list: the rights of the plugin are to list and watch, as its reflectors do.
                found = await self.client.list_all(NODES, Selector(fields=f"metadata.name={name}"))
        except (GcushareError, TimeoutError) as error:
            logger.warning("the Node cannot be read, so its label is not known %s", fields(reason=error))
            return None
        return found[0] if found else None

    def _had_served_claims(self, node: Node) -> bool:
        """Whether its inventory is of claims: slices may stand, and claims may be allocated but not prepared."""
        text = node.metadata.annotations.get(self.settings.cards.vendor.inventory_annotation)
        try:
            return text is not None and SERVES_CLAIMS in decode_inventory(text).modes
        except RemoteContractError:
            return False

    async def _has_unit_holders(self) -> bool:
        """Whether the kubelet gave units or whole cards to pods, by its checkpoint or by podresources."""
        kubelet, vendor = self.settings.kubelet, self.settings.cards.vendor
        reader = PodResourcesReader(vendor, kubelet, clock=self.adapters.clock.monotonic)
        try:
            shown = await reader.fetch()
            kept = await reader.fetch_checkpoint()
            return any(found.pods or found.foreign for found in (shown, kept))
        except (RetryableError, DeviceError) as error:
            logger.info("the kubelet shows no allocations %s", fields(reason=error))
            return False


async def run_plugin(settings: PluginSettings, shutdown: Shutdown) -> int:
    """Run the plugin of this node until the shutdown."""

    def observe(verb: str, resource: str, code: int) -> None:
        program.observe_request(verb, resource, code)

    async with open_cluster(settings.kube, program=COMPONENT, observer=observe) as client:
        program = NodeProgram(settings, client)
        return await program.run(shutdown)
