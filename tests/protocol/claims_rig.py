"""The real claims driver in this process, between an API server double and the kubelet's side of claims."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from gcushare.device_plugin.claims.app import ClaimsApp
from gcushare.device_plugin.claims.reporting import ClaimsMetrics
from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import KubeConfig
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.contracts import SERVE_CLAIMS, SERVE_LABEL
from gcushare.wire.protos import podresources_pb2, services
from gcushare_playground.apiserver.serving import ApiServer, ApiServerConfig
from gcushare_playground.kubelet.dra import ClaimRef, DraKubelet
from tests.api_objects import an_object, delete, listed, merge_into
from tests.protocol.grpc_server import serving_method
from tests.protocol.node_rig import NODE, NOTHING, NodeRig

NAMES = ENFLAME.claims
LABELS = {SERVE_LABEL: SERVE_CLAIMS}
DEADLINE_S = 60.0


class ClaimsRig(NodeRig):
    """Started parts: ``api``, ``kubelet``, its podresources socket, and the driver of ``start`` and ``end_program``."""

    app: ClaimsApp

    def __init__(self, cards: Sequence[int] = (16, 16), **settings: Any) -> None:
        super().__init__(cards, settings)
        self.vendor: Vendor = settings.get("vendor", ENFLAME)
        self.claims_of: dict[str, list[str]] = {}
        """The claims of each pod's one container, by podresources."""
        self.kubelet: DraKubelet

    async def __aenter__(self) -> Self:
        self.root = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="drv-")))
        self.write_cards()
        self.api = await self._stack.enter_async_context(ApiServer(ApiServerConfig(runs_controllers=False)))
        self.api.kubeconfig(self.root / "kubeconfig")
        self.api.registry.put(an_object("Node", NODE, metadata={"labels": LABELS}))
        self.kubelet = await self._stack.enter_async_context(DraKubelet(self.root))
        await self._serve_pod_resources()
        self._stack.push_async_callback(self.end_program)
        return self

    @property
    def directory(self) -> Path:
        return self.root / "plugins" / self.vendor.claims.driver

    async def start(self, *, until_published: bool = True) -> None:
        """Start the driver; until its slices stand there and the kubelet has registered it."""
        metrics = ClaimsMetrics()
        config = KubeConfig(self.api.url, "the rig")  # as the kubeconfig says, which takes long to read
        client = KubeClient(config, observer=metrics.observe_request)
        self.app = ClaimsApp(self.settings(), client, metrics, self.adapters)
        self.app.observed.agent.others_poll_s = 0.05
        self.run_program(client, self.app)
        if until_published:
            await self.until(lambda: bool(self.slices()) and self.app.observed.publisher.is_current, "slices stand")
            await self.until_registered()

    @asynccontextmanager
    async def another(self) -> AsyncIterator[ClaimsRig]:
        """Have a second driver for the same node; it ends with the block."""
        other = ClaimsRig(self._sizes, **self.plugin_settings)
        other.root, other.api, other.kubelet = self.root, self.api, self.kubelet
        try:
            yield other
        finally:
            await other.end_program()

    async def until_registered(self) -> None:
        """Have the kubelet find the driver."""

        async def found() -> bool:
            return await self.kubelet.find_driver() is not None

        async with asyncio.timeout(DEADLINE_S):
            while not await found():  # noqa: ASYNC110 - no one over there sets an event of ours
                await asyncio.sleep(0.02)

    def slices(self) -> list[dict[str, Any]]:
        """The slices that stand there, in the scheduler's order."""
        return sorted(listed(self.api, "ResourceSlice"), key=lambda each: str(each["metadata"]["name"]))

    def delete_slices(self) -> None:
        for each in self.slices():
            delete(self.api, "ResourceSlice", each["metadata"]["name"])

    def devices(self) -> dict[str, dict[str, Any]]:
        """The devices of all slices, in order."""
        return {each["name"]: each for found in self.slices() for each in found["spec"].get("devices") or []}

    def allocate(self, name: str, *results: Mapping[str, Any], namespace: str = "default") -> ClaimRef:
        """Create a claim as the scheduler leaves it."""
        whole = [{"request": "card", "driver": self.vendor.claims.driver, "pool": NODE, **each} for each in results]
        spec = {"devices": {"requests": [{"name": "card"}]}}
        created = self.api.registry.put(an_object("ResourceClaim", name, namespace, spec=spec))
        claim = ClaimRef(created["metadata"]["uid"], name, namespace)
        self.reserve(claim, (name, name))
        self.set_status("ResourceClaim", name, namespace, allocation={"devices": {"results": whole}})
        return claim

    def reserve(self, claim: ClaimRef, *pods: tuple[str, str]) -> None:
        """Reserve a claim for these pods, by name and uid."""
        reserved = [{"resource": "pods", "name": name, "uid": uid} for name, uid in pods]
        self.set_status("ResourceClaim", claim.name, claim.namespace, reservedFor=reserved)

    def set_status(self, kind: str, name: str, namespace: str = "default", **status: Any) -> None:
        merge_into(self.api, kind, name, {"status": status}, namespace, status_only=True)

    def run_pod(self, name: str, *claims: str, annotations: Mapping[str, str] = NOTHING) -> str:
        """Bind a pod to this node that has these claims, as Kubernetes leaves it; returns its uid."""
        container = {"name": "main", "image": "x", "resources": {"claims": [{"name": each} for each in claims]}}
        asked = [{"name": each, "resourceClaimTemplateName": "t"} for each in claims]
        spec = {"nodeName": NODE, "containers": [container], "resourceClaims": asked}
        pod = an_object("Pod", name, metadata={"annotations": dict(annotations)}, spec=spec)
        uid = str(self.api.registry.put(pod)["metadata"]["uid"])
        made = [{"name": each, "resourceClaimName": each} for each in claims]
        self.set_status("Pod", name, phase="Running", resourceClaimStatuses=made)
        return uid

    async def _serve_pod_resources(self) -> None:
        async def answer(_request: bytes, _context: object) -> bytes:
            response = podresources_pb2.ListPodResourcesResponse()
            for name, claims in self.claims_of.items():
                container = response.pod_resources.add(name=name, namespace="default").containers.add(name="main")
                for claim in claims:
                    found = container.dynamic_resources.add(claim_name=claim, claim_namespace="default")
                    found.claim_resources.add(driver_name=self.vendor.claims.driver)
            return response.SerializeToString()

        (self.root / "pod-resources").mkdir()
        socket = self.root / "pod-resources" / "kubelet.sock"
        await self._stack.enter_async_context(serving_method(socket, services.POD_RESOURCES_LIST, answer))


def share(device: str, gib: int, **more: Any) -> dict[str, Any]:
    """A share as an allocation's result has it."""
    return {"device": device, "consumedCapacity": {"memory": f"{gib}Gi"}, "shareID": "b" * 36} | more
