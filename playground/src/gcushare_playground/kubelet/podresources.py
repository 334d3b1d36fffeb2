"""The pod resources API: which container holds which ids, on ``pod-resources/kubelet.sock``."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import grpc.aio

from gcushare.wire.protos import podresources_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.kubelet.books import DeviceBooks
from gcushare_playground.kubelet.checkpoint import NO_NUMA_NODE
from gcushare_playground.kubelet.claims import PodClaims
from gcushare_playground.kubelet.endpoints import serve_method
from gcushare_playground.kubelet.faults import KubeletFaults, PodResourcesMode
from gcushare_playground.kubelet.podspec import ContainerSpec, Pod


class PodResourcesServer:
    """Answers List from the books.

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
        rng: random.Random,
        clock: Callable[[], float],
    ) -> None:
        self._clock = clock
        self._socket_path = socket_path
        self._books = books
        self._active_pods = active_pods
        self._claims = claims
        self._faults = faults
        self._rng = rng
        self._visible_at: dict[tuple[str, str], float] = {}
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Listen on the socket, in place of one that a killed process left."""
        self._socket_path.parent.mkdir(parents=True, exist_ok=True)
        self._socket_path.unlink(missing_ok=True)
        handler = grpc.unary_unary_rpc_method_handler(
            self._list,
            request_deserializer=pb.ListPodResourcesRequest.FromString,
            response_serializer=pb.ListPodResourcesResponse.SerializeToString,
        )
        self._server = await serve_method(self._socket_path, services.POD_RESOURCES_LIST, handler)

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
        match self._faults.podresources:
            case PodResourcesMode.HANG:
                await asyncio.Event().wait()
            case PodResourcesMode.FORGET:
                return pb.ListPodResourcesResponse()
            case PodResourcesMode.ANSWER:
                pass
        return pb.ListPodResourcesResponse(pod_resources=[self._describe(pod) for pod in self._active_pods()])

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
                topology = None if numa == NO_NUMA_NODE else pb.TopologyInfo(nodes=[pb.NUMANode(ID=numa)])
                for id_ in ids:
                    yield pb.ContainerDevices(resource_name=entry.resource, device_ids=[id_], topology=topology)
