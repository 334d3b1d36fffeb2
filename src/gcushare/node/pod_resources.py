"""Reads the kubelet's own record of what each container holds (podresources)."""

from __future__ import annotations

from pathlib import Path

import grpc
import grpc.aio

from gcushare.core.errors import RetryableError
from gcushare.wire.protos import podresources_pb2 as pb
from gcushare.wire.protos import services
from gcushare.wire.protos.services import read_message

LIST_TIMEOUT_S = 5.0


async def list_pod_resources(
    socket: Path,
    *,
    timeout_s: float = LIST_TIMEOUT_S,
    limit_bytes: int = services.POD_RESOURCES_ANSWER_LIMIT_BYTES,
) -> bytes:
    """The encoded ListPodResourcesResponse, of at most so many bytes, over a connection of its own.

    Raises:
        RetryableError: the kubelet does not answer.
    """
    # A pool of its own: the shared one answers with the failure of a connection that was tried a moment before.
    options = [("grpc.max_receive_message_length", limit_bytes), ("grpc.use_local_subchannel_pool", 1)]
    try:
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
            body: bytes = await channel.unary_unary(services.POD_RESOURCES_LIST)(b"", timeout=timeout_s)
    except grpc.aio.AioRpcError as error:
        raise RetryableError(f"podresources at {socket}: {error.code().name} {error.details()}") from error
    return body


async def list_claiming_pods(socket: Path, driver: str) -> tuple[str, ...]:
    """The pods, ``namespace/name``, that hold claims which a driver prepared.

    Raises:
        RetryableError, RemoteContractError: the kubelet does not answer, or with something else.
    """
    response = read_message(pb.ListPodResourcesResponse, await list_pod_resources(socket))
    return tuple(
        sorted(
            f"{pod.namespace}/{pod.name}"
            for pod in response.pod_resources
            if any(
                resource.driver_name == driver
                for container in pod.containers
                for claim in container.dynamic_resources
                for resource in claim.claim_resources
            )
        )
    )


async def list_claims_of_containers(socket: Path) -> dict[tuple[str, str], frozenset[str]]:
    """The claims, ``namespace/name``, of each container: by pod, ``namespace/name``, and container.

    The kubelet lists a pod's claims before it has the drivers prepare them. It lists no init containers but sidecars.

    Raises:
        RetryableError, RemoteContractError: the kubelet does not answer, or with something else.
    """
    response = read_message(pb.ListPodResourcesResponse, await list_pod_resources(socket))
    return {
        (f"{pod.namespace}/{pod.name}", container.name): frozenset(
            f"{claim.claim_namespace}/{claim.claim_name}" for claim in container.dynamic_resources
        )
        for pod in response.pod_resources
        for container in pod.containers
        if container.dynamic_resources
    }
