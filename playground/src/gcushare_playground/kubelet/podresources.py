"""The pod resources API: which container holds which ids, on ``pod-resources/kubelet.sock``."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from gcushare.wire.protos import podresources_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.kubelet.books import DeviceBooks
from gcushare_playground.kubelet.checkpoint import NO_NUMA_NODE
from gcushare_playground.kubelet.claims import PodClaims
from gcushare_playground.kubelet.faults import KubeletFaults, PodResourcesMode
from gcushare_playground.kubelet.podspec import ContainerSpec, Pod

logger = logging.getLogger(__name__)

_BURST_CALLS = 10


class CallLimiter:
    """A token bucket; the stock kubelet's is 100 calls a second in bursts of 10."""

    def __init__(self, calls_per_s: float, clock: Callable[[], float]) -> None:
        self._calls_per_s = calls_per_s
        self._clock = clock
        self._tokens = float(_BURST_CALLS)
        self._filled_at = clock()

    def is_allowed(self) -> bool:
        """Take a token if there is one."""
        now = self._clock()
        self._tokens = min(_BURST_CALLS, self._tokens + (now - self._filled_at) * self._calls_per_s)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True


class PodResourcesServer:
    """Answers List, Get and GetAllocatableResources from the books.

    Lists active pods only, each with its sidecars and app containers; ordinary init containers are left out. What was
    allocated a moment ago is not shown yet.
    """

    def __init__(
        self,
        socket_path: Path,
        books: DeviceBooks,
        *,
        active_pods: Callable[[], list[Pod]],
        claims: PodClaims,
        faults: KubeletFaults,
        limiter: CallLimiter,
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._socket_path = socket_path
        self._books = books
        self._active_pods = active_pods
        self._claims = claims
        self._faults = faults
        self._limiter = limiter
        self._rng = rng
        self._visible_at: dict[tuple[str, str], float] = {}
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen on the socket, in place of one that a killed process left."""
        self._socket_path.parent.mkdir(parents=True, exist_ok=True)
        self._socket_path.unlink(missing_ok=True)
        # A real kubelet bounds what its own clients receive, not what it sends.
        server = grpc.aio.server(options=(("grpc.max_send_message_length", -1),))
        handlers = {
            services.POD_RESOURCES_LIST: (self._list, pb.ListPodResourcesRequest.FromString),
            services.POD_RESOURCES_GET: (self._get, pb.GetPodResourcesRequest.FromString),
            services.POD_RESOURCES_GET_ALLOCATABLE: (self._get_allocatable, pb.AllocatableResourcesRequest.FromString),
        }
        methods = {
            services.short_name(method): grpc.unary_unary_rpc_method_handler(
                handler, request_deserializer=parse, response_serializer=_serialize
            )
            for method, (handler, parse) in handlers.items()
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(services.POD_RESOURCES_SERVICE, methods),)
        )
        server.add_insecure_port(f"unix:{self._socket_path}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=None)

    def note_grant(self, uid: str, container: str) -> None:
        """Start the delay after which a fresh allocation is shown."""
        delay_s = self._rng.uniform(*self._faults.podresources_delay_s)
        self._visible_at[uid, container] = self._clock() + delay_s

    async def _list(
        self, request: pb.ListPodResourcesRequest, context: grpc.aio.ServicerContext
    ) -> pb.ListPodResourcesResponse:
        await self._admit_call(context)
        if self._faults.podresources is PodResourcesMode.FORGET:
            return pb.ListPodResourcesResponse()
        return pb.ListPodResourcesResponse(pod_resources=[self._describe(pod) for pod in self._active_pods()])

    async def _get(
        self, request: pb.GetPodResourcesRequest, context: grpc.aio.ServicerContext
    ) -> pb.GetPodResourcesResponse:
        await self._admit_call(context)
        for pod in self._active_pods():
            if (pod.namespace, pod.name) == (request.pod_namespace, request.pod_name):
                return pb.GetPodResourcesResponse(pod_resources=self._describe(pod))
        message = f"pod {request.pod_name} in namespace {request.pod_namespace} not found"
        await context.abort(grpc.StatusCode.UNKNOWN, message)
        raise AssertionError("abort raises")

    async def _get_allocatable(
        self, request: pb.AllocatableResourcesRequest, context: grpc.aio.ServicerContext
    ) -> pb.AllocatableResourcesResponse:
        await self._admit_call(context)
        devices = [
            device
            for resource, healthy in sorted(self._books.healthy.items())
            for id_ in sorted(healthy)
            for device in _devices(resource, id_, self._books.numa_of(resource, id_) or (NO_NUMA_NODE,))
        ]
        return pb.AllocatableResourcesResponse(devices=devices)

    async def _admit_call(self, context: grpc.aio.ServicerContext) -> None:
        match self._faults.podresources:
            case PodResourcesMode.HANG:
                await asyncio.Event().wait()
            case PodResourcesMode.REFUSE:
                await context.abort(grpc.StatusCode.INTERNAL, "pod resources are switched off")
            case PodResourcesMode.ANSWER:
                if not self._limiter.is_allowed():
                    await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")

    def _describe(self, pod: Pod) -> pb.PodResources:
        containers = [
            pb.ContainerResources(
                name=container.name,
                devices=self._held(pod.uid, container.name),
                dynamic_resources=self._claimed(pod, container),
            )
            for container in pod.containers
            if not container.ends_before_the_others
        ]
        return pb.PodResources(name=pod.name, namespace=pod.namespace, containers=containers)

    def _claimed(self, pod: Pod, container: ContainerSpec) -> Iterator[pb.DynamicResource]:
        claims = self._claims.of(pod.uid)
        for claim in (claims[name] for name in pod.claims_of(container) if name in claims):
            resources = [pb.ClaimResource(driver_name=self._claims.driver)]
            yield pb.DynamicResource(claim_name=claim.name, claim_namespace=claim.namespace, claim_resources=resources)

    def _held(self, uid: str, container: str) -> Iterator[pb.ContainerDevices]:
        """Yield one message per id, as the stock kubelet does, and one per NUMA node of it."""
        visible_at = self._visible_at.get((uid, container))
        if visible_at is not None and self._clock() < visible_at:
            return
        self._visible_at.pop((uid, container), None)
        for entry in self._books.container_entries(uid, container):
            for numa, ids in entry.ids_by_numa.items():
                for id_ in ids:
                    yield from _devices(entry.resource, id_, (numa,))


def _devices(resource: str, id_: str, numa: Iterable[int]) -> Iterator[pb.ContainerDevices]:
    for node in numa:
        topology = None if node == NO_NUMA_NODE else pb.TopologyInfo(nodes=[pb.NUMANode(ID=node)])
        yield pb.ContainerDevices(resource_name=resource, device_ids=[id_], topology=topology)


def _serialize(message: Any) -> bytes:
    raw: bytes = message.SerializeToString()
    return raw
