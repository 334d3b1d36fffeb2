"""The real extender in this process, over real HTTP, with an API server double."""

from __future__ import annotations

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Self

import aiohttp

from gcushare.core.assignments import Assignment
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.runtime.settings.election import ElectionSettings
from gcushare.runtime.settings.log import LogSettings
from gcushare.runtime.settings.serving import ServeSettings
from gcushare.runtime.shutdown import Shutdown
from gcushare.scheduler_extender.app import Extender
from gcushare.scheduler_extender.dashboard.dashboard_settings import DashboardSettings
from gcushare.scheduler_extender.extender_settings import ExtenderSettings, FollowSettings, PlacementSettings
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.contracts import EXTENDER
from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from tests.api_objects import find
from tests.extender_objects import Document, filter_body, node_document, pod_document
from tests.protocol.fetching import fetch

DEADLINE_S = 60.0
ALONE = ElectionSettings(leader_elect=False)


def extender_settings(
    *,
    vendors: tuple[Vendor, ...] = (ENFLAME,),
    election: ElectionSettings = ALONE,
    serve: ServeSettings | None = None,
    follow: FollowSettings | None = None,
    **placement: Any,
) -> ExtenderSettings:
    return ExtenderSettings(
        placement=PlacementSettings(vendor=vendors, **placement),
        serve=serve or ServeSettings(listen_address="127.0.0.1", listen_port=0),
        dashboard=DashboardSettings(page_port=0),
        election=election,
        follow=follow or FollowSettings(),
        log=LogSettings(log_dir=None),
    )


class Replica:
    """One extender with its client, started and stopped like the program."""

    def __init__(self, settings: ExtenderSettings, api_url: str) -> None:
        self._client = KubeClient(KubeConfig(api_url, "test"))
        self.extender = Extender(settings, self._client)
        self.shutdown = Shutdown()
        self._running: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._client.__aenter__()
        self._running = asyncio.create_task(self.extender.run(self.shutdown), name="replica")
        await until(lambda: self.extender.page_server is not None or self._finished())

    def _finished(self) -> bool:
        if self._running is not None and self._running.done():
            self._running.result()
        return False

    async def stop(self) -> None:
        """End as at SIGTERM."""
        self.shutdown.request("the test is over")
        if self._running is not None:
            await self._running
        await self._client.close()

    @property
    def url(self) -> str:
        assert self.extender.server is not None
        return self.extender.server.url

    @property
    def page_url(self) -> str:
        """Where the page, metrics and health are."""
        assert self.extender.page_server is not None
        return self.extender.page_server.url

    def url_of(self, path: str) -> str:
        """The address of the port that has a path."""
        is_page = path.startswith(("/dashboard", "/metrics", "/healthz", "/readyz"))
        return self.page_url if is_page else self.url

    async def get(self, path: str) -> str:
        """What it answers to a GET that succeeds."""
        status, text = await fetch(f"{self.url_of(path)}{path}")
        assert status == 200, text
        return text

    async def ask(self, question: str) -> Any:
        """The document of ``inspect`` or ``explain/NAMESPACE/POD`` of its first vendor."""
        prefix = self.extender.states[0].vendor.url_prefix
        return json.loads(await self.get(f"{prefix}/{question}"))

    def held(self) -> dict[str, Assignment]:
        return {a.pod.name: a for state in self.extender.states for a in state.ledger.assignments()}


@asynccontextmanager
async def running_replica(settings: ExtenderSettings, api_url: str) -> AsyncIterator[Replica]:
    """One extender of this API server, until the block ends."""
    replica = Replica(settings, api_url)
    await replica.start()
    try:
        yield replica
    finally:
        await replica.stop()


class ExtenderRig:
    """An API server double, one replica, and a client that speaks as kube-scheduler does; ``tls`` is the client's."""

    def __init__(
        self, settings: ExtenderSettings | None = None, *, starts: bool = True, tls: ssl.SSLContext | None = None
    ) -> None:
        self._settings = settings or extender_settings()
        self._starts = starts
        self._tls = tls
        self._stack = AsyncExitStack()
        self.prefix = self._settings.placement.vendor[0].url_prefix
        self.api: ApiServer
        self.http: aiohttp.ClientSession
        self.replica: Replica

    async def __aenter__(self) -> Self:
        self.api = await self._stack.enter_async_context(ApiServer(ApiServerConfig(runs_controllers=False)))
        connector = aiohttp.TCPConnector(ssl=self._tls or True)
        self.http = await self._stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        if self._starts:
            self.replica = await self.add_replica()
            await self.until_serving()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def add_replica(self, settings: ExtenderSettings | None = None, *, api_url: str = "") -> Replica:
        """Start one more replica, which finds the API server at ``api_url`` where that is another way to it."""
        replica = Replica(settings or self._settings, api_url or self.api.url)
        await replica.start()
        self._stack.push_async_callback(replica.stop)
        return replica

    async def until_serving(self, replica: Replica | None = None) -> None:
        serving = (replica or self.replica).extender
        await until(lambda: serving.serving.is_synced and serving.leadership.is_leader)

    # The cluster

    async def add_nodes(self, *documents: Document) -> None:
        for document in documents:
            self.api.registry.put(document)
        names = {document["metadata"]["name"] for document in documents}
        if self._starts:
            await until(lambda: names <= self.known_nodes())

    def known_nodes(self) -> set[str]:
        return {
            name for state in self.replica.extender.states for name, node in state.ledger.nodes.items() if node.known
        }

    async def add_pods(self, *documents: Document) -> list[Document]:
        """Create pods, bound where they say so; returns them as stored."""
        made = [self._put_pod(document) for document in documents]
        uids = {pod["metadata"]["uid"] for pod in made if not pod["spec"].get("nodeName")}
        if self._starts:
            states = self.replica.extender.states
            await until(lambda: uids <= {uid for state in states for uid in state.waiting})
        return made

    def _put_pod(self, document: Document) -> Document:
        wanted = {key: value for key, value in document.items() if key != "status"}
        wanted["metadata"] = {k: v for k, v in document["metadata"].items() if k not in ("uid", "creationTimestamp")}
        return self.api.registry.put(wanted)

    def pod(self, name: str) -> Document:
        return find(self.api, "Pod", name)

    def events(self) -> list[Document]:
        return self.api.store.list("events")

    # The scheduler

    async def post(self, verb: str, body: bytes, *, url: str | None = None) -> tuple[int, Any]:
        target = f"{url or self.replica.url}{self.prefix}/{verb}"
        async with self.http.post(
            target, data=io.BytesIO(body), headers={"Content-Type": "application/json"}
        ) as answer:
            return answer.status, json.loads(await answer.read())

    async def filter(self, pod: Document, names: Sequence[str]) -> Any:
        status, answer = await self.post("filter", filter_body(pod, names))
        assert status == 200, answer
        return answer

    async def bind(
        self, pod: Document, node: str, *, url: str | None = None, is_filtered: bool = False
    ) -> tuple[int, Any]:
        """Bind as kube-scheduler does, which filters first; ``is_filtered``: that was done, or is left out."""
        if not is_filtered:
            await self.post("filter", filter_body(pod, [node]), url=url)
        meta = pod["metadata"]
        arguments = {"PodName": meta["name"], "PodNamespace": "default", "PodUID": meta["uid"], "Node": node}
        return await self.post("bind", json.dumps(arguments).encode(), url=url)

    async def schedule(self, name: str, units: int, names: Sequence[str], **options: Any) -> Document:
        """Create a pod and take it through filter and bind; returns it as stored."""
        (pod,) = await self.add_pods(pod_document(name, units, **options))
        chosen = (await self.filter(pod, names))["NodeNames"]
        status, answer = await self.bind(pod, chosen[0], is_filtered=True)
        assert (status, answer) == (200, {"Error": ""})
        return self.pod(name)

    async def get(
        self, path: str, headers: Mapping[str, str] | None = None, *, url: str | None = None
    ) -> tuple[int, str]:
        """Read a path of the replica, at the port that has it."""
        return await fetch(f"{url or self.replica.url_of(path)}{path}", headers, tls=self._tls)

    async def get_json(self, path: str, *, url: str | None = None) -> Any:
        status, text = await self.get(path, url=url)
        assert status == 200, text
        return json.loads(text)


async def until(holds: Callable[[], bool], deadline_s: float = DEADLINE_S) -> None:
    """Wait for a condition that other tasks bring about."""
    async with asyncio.timeout(deadline_s):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event: it is another program's state
            await asyncio.sleep(0.005)


def quick_election(duration_s: float = 60.0) -> ElectionSettings:
    """An election that is won at once when no one leads; after a kill in ``duration_s``, and kept on a busy machine."""
    times: dict[str, Any] = {"lease_duration": duration_s, "lease_renew_deadline": 0.3 * duration_s, "lease_retry": 0.1}
    return ElectionSettings(lease_name=EXTENDER, lease_namespace="default", **times)


def eight_cards() -> Document:
    return node_document("node-1", *[16] * 8)
