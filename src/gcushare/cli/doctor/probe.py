"""Asks the programs themselves: plugins through ``pods/proxy``, extenders through it, their Service or an address."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import quote

from gcushare.cli.doctor.facts import ClockFacts, Part, PluginFacts, ReplicaFacts, Unread
from gcushare.cli.doctor.objects import SeenPod, Service
from gcushare.cli.doctor.programs import EXTENDER_PORT, STATUS_PORT, has_tls, port_of, vendor_of_plugin
from gcushare.cli.doctor.read import ANSWER_S, Dated, Reader
from gcushare.cluster.metrics_text import parse_figures
from gcushare.core.errors import ForbiddenError, GcushareError
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.vendors import VENDORS_BY_NAME
from gcushare.wire.documents.node_status import parse_node_status

_POD_PROXY, _SERVICE_PROXY = "pods/proxy", "services/proxy"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a program answers: a prefix of paths at some server."""

    client: KubeClient
    prefix: str
    words: str

    @property
    def right(self) -> str:
        """The right that asking there needs; empty for an address of its own."""
        return f"get {self.words}" if "/" in self.words else ""


def proxied_pod(client: KubeClient, pod: SeenPod, default_port: int) -> Endpoint:
    """A program's pod, through the API server."""
    scheme = "https:" if has_tls(pod) else ""
    word = quote(f"{scheme}{pod.metadata.name}:{port_of(pod, default_port)}", safe=":")
    namespace = quote(pod.metadata.namespace, safe="")
    return Endpoint(client, f"/api/v1/namespaces/{namespace}/pods/{word}/proxy", _POD_PROXY)


def proxied_service(client: KubeClient, service: Service) -> Endpoint:
    """Whoever is ready behind a Service, through the API server."""
    port = service.spec.ports[0] if service.spec.ports else None
    scheme = "https:" if port is not None and (port.name == "https" or port.port == 443) else ""
    tail = f":{port.port}" if port is not None else ""
    word = quote(f"{scheme}{service.metadata.name}{tail}", safe=":")
    namespace = quote(service.metadata.namespace, safe="")
    return Endpoint(client, f"/api/v1/namespaces/{namespace}/services/{word}/proxy", _SERVICE_PROXY)


@asynccontextmanager
async def at_address(url: str) -> AsyncIterator[Endpoint]:
    """A program at an address of its own; nothing is asked yet."""
    async with KubeClient(KubeConfig(server=url.rstrip("/"), source="--extender-url"), program="gcushare") as client:
        yield Endpoint(client, "", "address")


async def ask_plugins(
    reader: Reader, pods: Sequence[SeenPod]
) -> tuple[tuple[PluginFacts, ...], tuple[ClockFacts, ...]]:
    """Ask every plugin what it believes and what its kubelet gave out."""
    done = 0

    async def ask(pod: SeenPod) -> tuple[PluginFacts, tuple[ClockFacts, ...]]:
        nonlocal done
        facts = PluginFacts(pod=pod, vendor=vendor_of_plugin(pod))
        if pod.status.phase != "Running" or not reader.may_read(Part.PLUGINS):
            return facts, ()
        endpoint = proxied_pod(reader.client, pod, STATUS_PORT)
        try:
            answer = await reader.ask(endpoint.client, f"{endpoint.prefix}/status", endpoint.words)
            status = parse_node_status(answer.body)
        except GcushareError as failure:
            _note_right(reader, Part.PLUGINS, endpoint, failure)
            return PluginFacts(pod=pod, vendor=facts.vendor, problem=str(failure)), ()
        finally:
            done += 1
            reader.progress(f"asking device plugins: {done} of {len(pods)}")
        # Its pod may say nothing of the vendor: a settings file, a variable or the cards themselves may have decided.
        vendor = VENDORS_BY_NAME.get(status.vendor, facts.vendor)
        return PluginFacts(pod=pod, vendor=vendor, status=status), reader.clock_of(
            f"the device plugin of node {pod.spec.node_name}", answer
        )

    found = await asyncio.gather(*(ask(pod) for pod in pods))
    return tuple(facts for facts, _ in found), tuple(clock for _, clocks in found for clock in clocks)


async def ask_replica(
    reader: Reader, endpoint: Endpoint, name: str, pod: SeenPod | None = None
) -> tuple[ReplicaFacts, tuple[ClockFacts, ...]]:
    """Ask one extender for its version and figures."""
    try:
        version = await reader.ask(endpoint.client, f"{endpoint.prefix}/version", endpoint.words)
        metrics = await reader.ask(endpoint.client, f"{endpoint.prefix}/metrics", endpoint.words)
        figures = parse_figures(metrics.body.decode("utf-8", errors="replace"))
    except GcushareError as failure:
        _note_right(reader, Part.EXTENDER, endpoint, failure)
        return ReplicaFacts(name=name, pod=pod, problem=str(failure)), ()
    facts = ReplicaFacts(name=name, pod=pod, version=_version_in(version), figures=figures)
    return facts, reader.clock_of(f"the scheduler extender {name}", version)


async def ask_replicas(
    reader: Reader, pods: Sequence[SeenPod]
) -> tuple[tuple[ReplicaFacts, ...], tuple[ClockFacts, ...]]:
    """Ask every extender's pod that runs; the others are told as they are."""
    if not reader.may_read(Part.PLUGINS):  # the same right, pods/proxy
        return tuple(ReplicaFacts(name=pod.key, pod=pod) for pod in pods), ()

    async def ask(pod: SeenPod) -> tuple[ReplicaFacts, tuple[ClockFacts, ...]]:
        if pod.status.phase != "Running":
            return ReplicaFacts(name=pod.key, pod=pod, problem=f"its pod is {pod.status.phase or 'Pending'}"), ()
        return await ask_replica(reader, proxied_pod(reader.client, pod, EXTENDER_PORT), pod.key, pod)

    found = await asyncio.gather(*(ask(pod) for pod in pods))
    return tuple(facts for facts, _ in found), tuple(clock for _, clocks in found for clock in clocks)


async def ask_service(reader: Reader, service: Service) -> str:
    """Ask whether anybody answers behind the Service; returns why not, empty where somebody does."""
    endpoint = proxied_service(reader.client, service)
    try:
        await endpoint.client.get_raw(f"{endpoint.prefix}/version", endpoint.words, timeout_s=ANSWER_S)
    except GcushareError as failure:
        _note_right(reader, Part.EXTENDER, endpoint, failure)
        return "" if isinstance(failure, ForbiddenError) else str(failure)
    return ""


def _note_right(reader: Reader, part: Part, endpoint: Endpoint, failure: GcushareError) -> None:
    known = {each.right for each in reader.unread}
    if isinstance(failure, ForbiddenError) and endpoint.right and endpoint.right not in known:
        reader.unread.append(Unread(part, str(failure), endpoint.right))


def _version_in(answer: Dated) -> str:
    return answer.body.decode("utf-8", errors="replace").strip().removeprefix("v")[:40]
