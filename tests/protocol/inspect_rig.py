"""A cluster to look at: the API server double, and before it the proxies of Services and pods that a real one has."""

from __future__ import annotations

import asyncio
import io
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

from gcushare.cli.inspect.command_line import NAMES, main
from gcushare.cli.kubectl.help_text import Names
from gcushare.core.cards import SERVES_MEMORY, InventoryCard
from gcushare.vendors import ENFLAME, Vendor
from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.apiserver.kubeconfig import write_kubeconfig
from gcushare_playground.apiserver.objects import Key
from gcushare_playground.apiserver.resources import BY_NAME
from tests.api_objects import delete
from tests.extender_objects import Document, node_document, on_card, pod_document
from tests.protocol.commands import Ran, run_command
from tests.protocol.extender_rig import Replica, extender_settings, running_replica, until

PODS = BY_NAME["pods"]
SERVICE = "services/http:gcushare-scheduler-extender:32766"
"""The extender's, among a front's backends."""
_PROXY = re.compile(r"/api/v1/namespaces/([^/]+)/(services|pods)/([^/]+)/proxy(/.*)")
_HOP_HEADERS = frozenset({"host", "connection", "transfer-encoding", "content-length"})


@dataclass(slots=True)
class Front:
    """An API server's address: proxied paths go to ``backends`` by namespace and name, the rest to the double."""

    api: ApiServer
    url: str = ""
    backends: dict[str, str] = field(default_factory=dict)
    """By ``services/http:name:port`` or ``pods/http:name:port`` of kube-system: a URL, or a body to answer with."""
    proxied: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        found = _PROXY.fullmatch(request.path)
        if found is None:
            return await self._forward(request, self.api.url + request.path_qs)
        _, kind, name, path = found.groups()
        self.proxied.append(request.path)
        backend = self.backends.get(f"{kind}/{name}")
        if backend is None:
            return _status(404, "NotFound", f'{kind} "{name}" not found')
        if not backend.startswith("http"):
            return web.Response(text=backend)
        return await self._forward(request, backend + path)

    async def _forward(self, request: web.Request, url: str) -> web.StreamResponse:
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in _HOP_HEADERS]
        try:
            async with (
                aiohttp.ClientSession() as http,
                http.request(request.method, url, headers=headers, data=io.BytesIO(await request.read())) as answer,
            ):
                response = web.StreamResponse(status=answer.status, headers={"Content-Type": answer.content_type})
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    await response.write(chunk)
                await response.write_eof()
                return response
        except aiohttp.ClientConnectorError as error:
            return _status(503, "ServiceUnavailable", f"error trying to reach service: {error}")


def _status(code: int, reason: str, message: str) -> web.Response:
    document = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response(document, status=code)


@asynccontextmanager
async def front_of(api: ApiServer) -> AsyncIterator[Front]:
    """Serve the front until the block ends."""
    front = Front(api)
    server = web.Server(front.handle, handler_cancellation=True)  # type: ignore[arg-type]  # BaseRequest suffices
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    front.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    try:
        yield front
    finally:
        listener.close()
        await server.shutdown(0)
        await listener.wait_closed()


@dataclass(slots=True)
class Cluster:
    """The front with what tests put into it, and a kubeconfig that names it."""

    front: Front
    kubeconfig: Path
    names: Names = NAMES["gcushare"]

    @property
    def api(self) -> ApiServer:
        return self.front.api

    def put(self, *documents: Document) -> None:
        """Store objects as they are, statuses included."""
        for document in documents:
            made = self.api.registry.put(document)
            if document["kind"] == "Pod":
                self.set_status(made, **document["status"])

    def set_status(self, pod: Document, **status: Any) -> None:
        """Change a pod's status, as its kubelet or the scheduler does."""
        self.rewrite(pod, lambda old: {**old, "status": {**old.get("status", {}), **status}})

    def rewrite(self, pod: Document, change: Callable[[Document], Document]) -> None:
        """Change a pod past every rule of the API server."""
        meta = pod["metadata"]
        self.api.registry.rewrite(PODS, Key(meta["namespace"], meta["name"]), change)

    def delete(self, name: str, *, namespace: str = "default") -> None:
        """Make a pod disappear."""
        delete(self.api, "Pod", name, namespace)

    def environ(self, **more: str) -> dict[str, str]:
        return {"HOME": "/nowhere", "KUBECONFIG": str(self.kubeconfig), **more}

    async def call(self, *argv: str, columns: int | None = None, environ: Mapping[str, str] | None = None) -> Ran:
        """Run the command on a pipe, or on a terminal of so many columns."""
        given = self.environ() if environ is None else environ
        return await run_command(partial(main, self.names.word), *argv, environ=given, columns=columns)

    async def show(self, *argv: str) -> Ran:
        """Run a command as people do: on a terminal, here a broad one without colours."""
        return await self.call(*argv, columns=300, environ=self.environ(NO_COLOR="1"))


@asynccontextmanager
async def cluster(folder: Path, *, names: Names = NAMES["gcushare"]) -> AsyncIterator[Cluster]:
    """An empty cluster."""
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as api, front_of(api) as front:
        path = write_kubeconfig(folder / "kubeconfig", front.url, token=None, authority=None, namespace="default")
        yield Cluster(front, path, names)


@asynccontextmanager
async def extender_of(found: Cluster, waiting: int = 0) -> AsyncIterator[Replica]:
    """Run an extender behind its Service, which knows the cluster and so many pods that wait."""
    settings = extender_settings(vendors=(found.names.vendor,))
    async with running_replica(settings, found.api.url) as replica:
        extender = replica.extender
        await until(lambda: extender.serving.is_synced and len(extender.states[0].waiting) >= waiting)
        found.front.backends[SERVICE] = replica.url
        yield replica
    del found.front.backends[SERVICE]


def a_node(
    name: str,
    *sizes: int,
    address: str = "",
    ready: bool = True,
    labels: Mapping[str, str] | None = None,
    vendor: Vendor = ENFLAME,
    offered: Sequence[InventoryCard] | None = None,
    annotations: Mapping[str, str] | None = None,
    modes: tuple[str, ...] = (SERVES_MEMORY,),
) -> Document:
    """A node with an address and a kubelet that reports."""
    document = node_document(name, *sizes, vendor=vendor, offered=offered, annotations=annotations, modes=modes)
    document["metadata"]["labels"] = dict(labels or {})
    document["status"] |= {
        "addresses": [{"type": "InternalIP", "address": address or f"10.0.0.{len(name)}"}],
        "conditions": [{"type": "Ready", "status": "True" if ready else "False"}],
    }
    return document


def bound_pod(name: str, node: str, card: int, units: int, *, vendor: Vendor = ENFLAME, **options: Any) -> Document:
    """A running pod that holds memory of one card."""
    record = on_card(card, units)
    return pod_document(name, units, vendor=vendor, node=node, record=record, phase="Running", **options)


def plugin_pod(name: str, node: str, phase: str = "Running") -> Document:
    """A pod of a device plugin, as the API server shows it."""
    return in_namespace(pod_document(name, None, node=node, phase=phase), "kube-system")


def in_namespace(document: Document, namespace: str) -> Document:
    """The same object in another namespace."""
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}
