"""The API server as one node sees it, through the programs' own client."""

from __future__ import annotations

from typing import Any

import msgspec

from gcushare.core.backoff import BackoffPolicy
from gcushare.core.errors import NotFoundError
from gcushare.kube.client import KubeClient
from gcushare.kube.clock import SystemClock
from gcushare.kube.collections import WatchHandler
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.patches import Patch, PatchKind, Precondition
from gcushare.kube.reflector import Reflector, ReflectorSettings
from gcushare.kube.resources import Resource, Selector
from gcushare_playground.amounts import JsonObject
from gcushare_playground.kubelet.podspec import Pod, parse_pod
from gcushare_playground.lifetime import Startable

_PODS: Resource[JsonObject] = Resource("api/v1", "pods", dict)
_NODES: Resource[JsonObject] = Resource("api/v1", "nodes", dict, namespaced=False)
_EVENTS: Resource[JsonObject] = Resource("api/v1", "events", dict)
_CLAIMS: Resource[JsonObject] = Resource("apis/resource.k8s.io/v1", "resourceclaims", dict)
_LEASES: Resource[JsonObject] = Resource("apis/coordination.k8s.io/v1", "leases", dict)
_LEASE_NAMESPACE = "kube-node-lease"
_FOLLOW = ReflectorSettings(backoff=BackoffPolicy(first_s=0.1, cap_s=2.0))


class NodeApi(Startable):
    """Speaks to ``server``, a URL over plain HTTP.

    Raises:
        NotFoundError: the object does not exist. ConflictError: it exists already or its uid is another.
        InvalidError: the object is invalid, or a patch of a pod's status names the uid of an earlier pod.
        ForbiddenError: rights are missing. RetryableError: the server is away or overloaded.
    """

    def __init__(self, server: str) -> None:
        self._client = KubeClient(KubeConfig(server=server, source="--server"), program="kubelet")

    async def start(self) -> None:
        await self._client.__aenter__()

    async def stop(self) -> None:
        await self._client.close()

    async def follow_pods(self, node: str, handler: WatchHandler[Pod]) -> None:
        """List and watch the node's pods until cancelled."""
        selector = Selector(fields=f"spec.nodeName={node}")
        await Reflector(
            self._client, _PODS, handler, decode=_decode_pod, selector=selector, settings=_FOLLOW, clock=SystemClock()
        ).run()

    async def get_node(self, name: str) -> JsonObject:
        return await self._client.get(_NODES, name)

    async def create_node(self, node: JsonObject) -> JsonObject:
        return await self._client.create(_NODES, node)

    async def patch_node_status(self, name: str, patch: JsonObject) -> JsonObject:
        """Merge-patch the status subresource and return the node as it is then."""
        return await self._client.patch(_NODES, name, Patch(PatchKind.MERGE, patch), subresource="status")

    async def patch_pod_status(self, namespace: str, name: str, patch: JsonObject) -> JsonObject:
        """Merge-patch the status subresource; another pod's ``metadata.uid`` makes the patch invalid."""
        merge = Patch(PatchKind.MERGE, patch)
        return await self._client.patch(_PODS, name, merge, namespace=namespace, subresource="status")

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        """Remove the pod of that uid at once."""
        await self._client.delete(_PODS, name, namespace=namespace, precondition=Precondition(uid=uid), grace_s=0)

    async def get_claim(self, namespace: str, name: str) -> JsonObject:
        """Read a ResourceClaim."""
        return await self._client.get(_CLAIMS, name, namespace=namespace)

    async def create_event(self, namespace: str, event: JsonObject) -> None:
        await self._client.create(_EVENTS, event, namespace=namespace)

    async def renew_lease(self, name: str, renew_time: str, duration_s: int) -> None:
        """Create or renew the node's Lease."""
        spec = {"holderIdentity": name, "leaseDurationSeconds": duration_s, "renewTime": renew_time}
        patch = Patch(PatchKind.MERGE, {"spec": spec})
        try:
            await self._client.patch(_LEASES, name, patch, namespace=_LEASE_NAMESPACE)
        except NotFoundError:
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": _LEASE_NAMESPACE},
                "spec": spec,
            }
            await self._client.create(_LEASES, lease, namespace=_LEASE_NAMESPACE)


def _decode_pod(raw: bytes | msgspec.Raw) -> Pod:
    document: dict[str, Any] = msgspec.json.decode(raw, type=dict[str, Any])
    return parse_pod(document)
