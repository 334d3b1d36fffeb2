"""A whole cluster on one machine: the doubles, and the real programs as child processes.

Everything listens on loopback, on ports that the system chooses. Every wait has a deadline. The end of the block ends
every process by its pid and removes every file.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp
import msgspec

from gcushare.config_manager.manager_settings import ExtenderOptions
from gcushare.config_manager.scheduler_config.document import new_config
from gcushare.config_manager.scheduler_config.extender_entry import ExtenderEntry
from gcushare.config_manager.scheduler_config.versions import Version
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Limits
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NAMESPACES, RESOURCE_SLICES, Resource
from gcushare.wire.contracts import CLAIMS_ENABLED, CLAIMS_LABEL, SERVE_CLAIMS, SERVE_LABEL
from gcushare_playground.apiserver.kubeconfig import write_kubeconfig
from gcushare_playground.commands import extender_command, plugin_command, port_of
from gcushare_playground.doubles import Doubles
from gcushare_playground.picture import (
    EVENT_OBJECTS,
    NODE_OBJECTS,
    POD_OBJECTS,
    SERVICE_OBJECTS,
    JsonObject,
    NotInTime,
    Picture,
    allocatable_of,
    key_of,
    phase_of,
    poll_until,
)
from gcushare_playground.plans import ClusterPlan, NodePlan, Place
from gcushare_playground.processes import Child, ProcessError, stop_all
from gcushare_playground.showing import (
    EXTENDER,
    NAMESPACE,
    SERVICE_PORT,
    extender_pod,
    extender_service,
    plugin_pod,
)

logger = logging.getLogger(__name__)

_CLASSES: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "deviceclasses", dict, namespaced=False)
_SCHEDULER_VERSION = Version(1, 36, 2)
_HTTP_TIMEOUT = aiohttp.ClientTimeout(total=10.0)


class Cluster:
    """One playground cluster. ``async with Cluster(plan)`` prepares it; ``start_all`` starts everything.

    ``root`` is made and removed by the cluster unless it is given; then the files stay.
    """

    def __init__(self, plan: ClusterPlan, root: Path | None = None) -> None:
        self.plan = plan
        self.doubles = Doubles(plan)
        self._given_root = root
        self._stack = AsyncExitStack()
        self._followers: list[asyncio.Task[None]] = []
        self.api_url = ""
        self.extender_url = ""
        self.page_url = ""
        """The extender's port for the page, metrics and health."""
        self.extender: Child | None = None
        self.plugins: dict[str, Child] = {}
        self.plugin_urls: dict[str, str] = {}
        self.serves_claims = False
        """Whether nodes serve claims: then the scheduler calls no extender."""
        self.place: Place
        self.client: KubeClient
        self.pods: Picture
        self.nodes: Picture
        self.events: Picture
        self.http: aiohttp.ClientSession

    async def __aenter__(self) -> Self:
        root = self._given_root or Path(tempfile.mkdtemp(prefix="gcushare-"))
        self.place = Place(root)
        self.place.logs.mkdir(parents=True, exist_ok=True)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Shielded: a second Ctrl-C must not leave half of the processes behind.
        await asyncio.shield(asyncio.create_task(self.stop(), name="stop the cluster"))

    async def stop(self) -> None:
        """End everything in order: programs, followers, doubles, files; repeatable."""
        try:
            await stop_all(list(self.programs()))
            for follower in self._followers:
                follower.cancel()
            await asyncio.gather(*self._followers, return_exceptions=True)
            self._followers.clear()
            await self._stack.aclose()
        finally:
            try:
                await self.doubles.stop()
            finally:
                # Also after a double that failed and says so only now.
                if self._given_root is None:
                    shutil.rmtree(self.place.root, ignore_errors=True)

    async def start_all(self, *, deadline_s: float = 60.0) -> None:
        """Start doubles and programs, and wait until pods can be placed."""
        await self.start_api_server()
        await self.start_kubelets()
        await asyncio.gather(self.start_extender(), self.start_plugins(self.plan.nodes))
        await self.start_scheduler()
        await self.wait_ready(deadline_s=deadline_s)

    async def start_api_server(self) -> None:
        """Start the API server double and follow what it holds."""
        self.api_url = await self.doubles.start_api_server()
        write_kubeconfig(self.place.kubeconfig, self.api_url, token=None, authority=None, namespace="default")
        config = KubeConfig(server=self.api_url, source="the playground")
        limits = Limits(connections=128)
        self.client = await self._stack.enter_async_context(KubeClient(config, program="playground", limits=limits))
        self.http = await self._stack.enter_async_context(aiohttp.ClientSession(timeout=_HTTP_TIMEOUT))
        self.pods = self._follow(Picture(self.client, POD_OBJECTS), "pods")
        self.nodes = self._follow(Picture(self.client, NODE_OBJECTS), "nodes")
        self.events = self._follow(Picture(self.client, EVENT_OBJECTS), "events")

    async def start_kubelets(self) -> None:
        """Start a kubelet per node and wait until every Node is there."""
        for node in self.plan.nodes:
            await self.doubles.start_kubelet(self.place, node)
        await self.nodes.until(lambda: len(self.nodes.objects) == len(self.plan.nodes), "every node registered")

    async def start_plugins(self, nodes: Iterable[NodePlan]) -> None:
        """Start the device plugin of nodes, as its DaemonSet would."""
        await asyncio.gather(*(self.start_plugin(node) for node in nodes))

    async def start_plugin(self, node: NodePlan) -> None:
        """Start one node's device plugin; its cards' file is written when it has none yet."""
        cards = self.place.cards_file(node)
        if not cards.exists():
            cards.write_bytes(node.cards_document())
        child = self.plugins[node.name] = Child(plugin_command(self.plan, self.place, node))
        self.plugin_urls[node.name] = await child.start()

    async def start_claims(self, namespace: str) -> None:
        """Have the nodes' plugins serve claims, as the chart does; pods of ``namespace`` get claims from then on.

        Raises:
            NotInTime: the nodes' slices are not there in time; the message carries every program's last lines.
        """
        claims = self.plan.vendor.claims
        selectors = [{"cel": {"expression": f"device.driver == '{claims.driver}'"}}]
        for name in (claims.memory_class, claims.whole_class):
            await self.client.create(_CLASSES, {"metadata": {"name": name}, "spec": {"selectors": selectors}})
        labels = {"metadata": {"labels": {CLAIMS_LABEL: CLAIMS_ENABLED}}}
        await self.client.patch(NAMESPACES, namespace, Patch(PatchKind.MERGE, labels))
        for node in self.plan.nodes:
            labels = {"metadata": {"labels": {SERVE_LABEL: SERVE_CLAIMS}}}
            await self.client.patch(NODE_OBJECTS, node.name, Patch(PatchKind.MERGE, labels))
        self.serves_claims = True
        await self.start_plugins(self.plan.nodes)

        async def look() -> str | None:
            slices = await self.client.list_all(RESOURCE_SLICES)
            found = {each.spec.node_name: len(each.spec.devices) for each in slices if each.spec.devices}
            return None if found == {node.name: len(node.card_bytes) for node in self.plan.nodes} else str(found)

        try:
            await poll_until(look, "every node's cards stand in slices", deadline_s=60.0)
        except NotInTime as error:
            raise NotInTime(f"{error}\n{self.describe_programs()}") from error

    async def start_extender(self) -> None:
        """Start the extender; one that ran before comes back on its port, which the scheduler knows."""
        port = port_of(self.extender_url) if self.extender_url else 0
        self.extender = Child(extender_command(self.plan, self.place, port))
        self.extender_url = await self.extender.start()
        self.page_url = self.extender.addresses[1]

    async def start_scheduler(self) -> None:
        """Write the scheduler's configuration, as the config manager would or without the extender, and start it."""
        if self.serves_claims:
            text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        else:
            options = ExtenderOptions(vendor=self.plan.vendor.name, whole_cards=self.plan.whole_cards)
            entry = ExtenderEntry(url=self.extender_url, options=options)
            text = new_config(entry, _SCHEDULER_VERSION, ()).text
        self.place.scheduler_config.write_text(text, encoding="utf-8")
        await self.doubles.start_scheduler(self.place)

    async def show_programs(self) -> None:
        """Put the programs into the API server as the charts would, so that commands find them with a kubeconfig alone.

        Raises:
            NotInTime: they cannot be asked through the API server by the deadline.
        """
        if self.extender is None:
            raise ProcessError("the extender was not started: there is nothing to show")
        vendor, first = self.plan.vendor, self.plan.nodes[0].name
        pods = [extender_pod(first, self.extender.command, port_of(self.extender_url), port_of(self.page_url))]
        pods += [
            plugin_pod(vendor, name, child.command, port_of(self.plugin_urls[name]))
            for name, child in self.plugins.items()
        ]
        await self.client.create(SERVICE_OBJECTS, extender_service(), namespace=NAMESPACE)
        await asyncio.gather(*(self.client.create(POD_OBJECTS, pod, namespace=NAMESPACE) for pod in pods))
        keys = [key_of(pod) for pod in pods]
        await self.pods.until(
            lambda: all(phase_of(self.pods.objects.get(key, {})) == "Running" for key in keys), "the programs' pods run"
        )
        await poll_until(self._look_behind_service, "the extender answers behind its Service")

    async def _look_behind_service(self) -> str | None:
        path = f"/api/v1/namespaces/{NAMESPACE}/services/http:{EXTENDER}:{SERVICE_PORT}/proxy/version"
        async with self.http.get(self.api_url + path) as answer:
            return None if answer.status == 200 else await answer.text()

    async def wait_ready(self, *, deadline_s: float = 60.0) -> None:
        """Wait until every node offers all its units, and the extender knows and serves them.

        Raises:
            NotInTime: not by the deadline; the message carries what is missing and every program's last lines.
        """
        try:
            await self.wait_for_capacity(deadline_s=deadline_s)
            await self.wait_extender_ready(deadline_s=deadline_s)
        except NotInTime as error:
            raise NotInTime(f"{error}\n{self.describe_programs()}") from error

    async def wait_for_capacity(self, *, deadline_s: float = 60.0) -> None:
        """Wait until every node's allocatable shows all its units and its cards."""
        wanted = {node.name: self.plan.offers(node) for node in self.plan.nodes}

        def offered() -> dict[str, dict[str, int]]:
            return {
                name: {resource: allocatable_of(node, resource) for resource in wanted.get(name, {})}
                for name, node in self.nodes.objects.items()
            }

        await self.nodes.until(
            lambda: offered() == wanted, f"nodes offer {wanted}", deadline_s=deadline_s, shown=lambda: str(offered())
        )

    async def wait_extender_ready(self, *, deadline_s: float = 60.0) -> None:
        """Wait until the extender serves, with every node's cards in its ledger."""
        total = sum(sum(self.plan.units_per_card(node)) for node in self.plan.nodes)
        key = f"total{self.plan.vendor.device_word}"

        async def look() -> str | None:
            try:
                async with self.http.get(f"{self.page_url}/metrics") as answer:
                    if "gcushare_leader 1.0" not in await answer.text():
                        return "it does not lead yet"
                found = {node["name"]: node[key] for node in (await self.inspect())["nodes"]}
            except (aiohttp.ClientError, NotInTime) as error:
                return str(error)
            return None if sum(found.values()) == total else str(found)

        await poll_until(look, f"the extender serves {total} units", deadline_s=deadline_s)

    async def inspect(self, node: str = "") -> JsonObject:
        """Ask the extender who uses which card.

        Raises:
            NotInTime: it does not answer with a document (yet).
        """
        path = f"{self.plan.vendor.url_prefix}/inspect" + (f"/{node}" if node else "")
        async with self.http.get(self.extender_url + path) as answer:
            body = await answer.read()
        if answer.status != 200:
            raise NotInTime(f"GET {path} was answered {answer.status}: {body[:200]!r}")
        return msgspec.json.decode(body, type=JsonObject)

    async def logs(self, namespace: str, pod: str, container: str) -> str:
        """Read what ``kubectl logs`` shows: what the container was given."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/log?container={container}"
        async with self.http.get(self.api_url + path) as answer:
            text = await answer.text()
        if answer.status != 200:
            raise NotInTime(f"GET {path} was answered {answer.status}: {text[:200]!r}")
        return text

    async def list_devices(self, namespace: str, pod: str, container: str) -> str:
        """Read what ``kubectl exec -t -- ls /dev`` shows, the way it does: over a WebSocket to the API server."""
        path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
        query = {"container": container, "stdout": "true", "tty": "true"}
        words = [*query.items(), ("command", "ls"), ("command", "/dev")]
        printed, status = b"", b""
        async with self.http.ws_connect(self.api_url + path, params=words, protocols=("v5.channel.k8s.io",)) as socket:
            async for message in socket:
                channel, part = message.data[:1], message.data[1:]
                printed, status = (printed + part, status) if channel == b"\x01" else (printed, status + part)
        if msgspec.json.decode(status or b"{}").get("status") != "Success":
            raise NotInTime(f"exec of ls /dev in pod {namespace}/{pod} was answered {status[:200]!r}")
        return printed.decode().replace("\r\n", "\n")

    def programs(self) -> Iterator[Child]:
        """The real programs that were started."""
        if self.extender is not None:
            yield self.extender
        yield from self.plugins.values()

    def describe_programs(self) -> str:
        """Every program's last lines, for messages."""
        return "\n".join(child.describe_tail() for child in self.programs())

    def _follow(self, picture: Picture, what: str) -> Picture:
        self._followers.append(asyncio.create_task(picture.run(), name=f"playground follows {what}"))
        return picture
