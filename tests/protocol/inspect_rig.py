"""A cluster to look at: the API server double, whose proxies of Services and pods lead where a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web

from gcushare.cli.inspect.command_line import NAMES, main
from gcushare.cli.kubectl.help_text import Names
from gcushare.vendors import ENFLAME, Vendor
from gcushare_playground.apiserver import ApiServer, ApiServerConfig
from gcushare_playground.apiserver.failures import not_found
from gcushare_playground.apiserver.proxying import Proxied, Proxy
from tests.api_objects import delete, merge_into
from tests.extender_objects import Document, node_document, on_card, pod_document
from tests.protocol.commands import Ran, run_command
from tests.protocol.extender_rig import Replica, extender_settings, running_replica, until

SERVICE = "services/http:gcushare-scheduler-extender:32766"
"""The extender's, among a front's backends."""


class Front(Proxy):
    """The API server's way to programs. What it was asked for is in ``proxied``.

    ``backends``: by ``services/http:name:port`` or ``pods/http:name:port`` of kube-system a URL, or a body to answer.
    """

    def __init__(self, api: ApiServer) -> None:
        super().__init__(api.registry)
        self.backends: dict[str, str] = {}
        self.proxied: list[str] = []

    async def answer(self, proxied: Proxied, request: web.BaseRequest) -> web.StreamResponse:
        self.proxied.append(request.path)
        backend = self.backends.get(f"{proxied.target.resource.plural}/{proxied.target.name}")
        if backend is None:
            raise not_found(proxied.target.resource, proxied.target.name)
        if not backend.startswith("http"):
            return web.Response(text=backend)
        return await super().answer(proxied, request)

    def _pod_address(self, proxied: Proxied) -> str:
        return urlsplit(self.backends[f"{proxied.target.resource.plural}/{proxied.target.name}"]).netloc

    _endpoint = _pod_address


@dataclass(slots=True)
class Cluster:
    """An API server with what tests put into it, and its kubeconfig."""

    api: ApiServer
    front: Front
    kubeconfig: Path
    names: Names = NAMES["gcushare"]

    def put(self, *documents: Document) -> None:
        """Store objects as they are, statuses included."""
        for document in documents:
            made = self.api.registry.put(document)
            if document["kind"] == "Pod":
                self.set_status(made, **document["status"])

    def set_status(self, pod: Document, **status: Any) -> None:
        """Change a pod's status, as its kubelet or the scheduler does."""
        meta = pod["metadata"]
        merge_into(self.api, "Pod", meta["name"], {"status": status}, meta["namespace"], status_only=True)

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
    async with ApiServer(ApiServerConfig(runs_controllers=False)) as api:
        front = api.handler.proxy = Front(api)
        yield Cluster(api, front, api.kubeconfig(folder / "kubeconfig"), names)


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
    **options: Any,
) -> Document:
    """A node with an address and a kubelet that reports; ``options``: those of ``node_document``."""
    document = node_document(name, *sizes, **options)
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
