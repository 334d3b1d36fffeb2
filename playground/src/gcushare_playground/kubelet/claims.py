"""The claims of this node's pods: their driver is found, prepares them before containers start, and unprepares them.

Source: pkg/kubelet/cm/dra. The kubelet's own record of prepared claims is not kept: after a restart they are prepared
again, which changes nothing.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path

import grpc.aio

from gcushare.core.errors import GcushareError, RetryableError
from gcushare.wire.protos import deviceplugin_pb2 as pb
from gcushare.wire.protos import dra_pb2
from gcushare_playground.amounts import JsonObject
from gcushare_playground.kubelet.api import NodeApi
from gcushare_playground.kubelet.dra import ClaimRef, DraKubelet
from gcushare_playground.kubelet.podspec import Pod
from gcushare_playground.kubelet.settings import KubeletSettings

logger = logging.getLogger(__name__)


class PodClaims:
    """Prepared claims by pod; ``run`` it while the kubelet runs. One driver is served."""

    def __init__(self, settings: KubeletSettings, api: NodeApi) -> None:
        self._settings = settings
        self._api = api
        self._kubelet = DraKubelet(settings.root_dir)
        self._prepared: dict[str, dict[str, ClaimRef]] = {}
        self.driver = ""
        """The driver that registered last."""

    def of(self, uid: str) -> Mapping[str, ClaimRef]:
        """A pod's claims, by the names that it gives to them, from before they are prepared."""
        return self._prepared.get(uid, {})

    async def run(self) -> None:
        """Register a driver as soon as its socket is there, and again after it made another; until cancelled."""
        async with self._kubelet:
            known: set[tuple[str, int]] = set()
            while True:
                with os.scandir(self._kubelet.registry) as entries:
                    sockets = {(each.name, each.inode()) for each in entries if each.name.endswith(".sock")}
                if sockets - known and (found := await self._kubelet.find_driver()) is not None:
                    known, self.driver = sockets, found.name
                    logger.info("claims driver registered node=%s", self._settings.node_name)
                await asyncio.sleep(min(0.2, self._settings.status_interval_s))

    async def prepare(self, pod: Pod) -> Mapping[str, pb.ContainerAllocateResponse]:
        """Have a pod's claims prepared, however often that fails; returns what containers get by each."""
        while True:
            try:
                return await self._prepare(pod)
            except GcushareError as error:
                logger.warning("claims not prepared pod=%s reason=%s", pod.full_name, error)
                await asyncio.sleep(self._settings.start_retry_s)

    async def unprepare(self, uid: str) -> None:
        """Give the claims of a pod back, however often that fails; its containers have ended."""
        while claims := self._prepared.get(uid):
            try:
                errors = await self._kubelet.unprepare(*claims.values())
            except grpc.aio.AioRpcError as error:
                errors = {"": str(error.details())}
            if not any(errors.values()):
                del self._prepared[uid]
                return
            logger.warning("claims not unprepared uid=%s reasons=%s", uid, errors)
            await asyncio.sleep(self._settings.start_retry_s)

    async def _prepare(self, pod: Pod) -> dict[str, pb.ContainerAllocateResponse]:
        statuses = pod.raw.get("status", {}).get("resourceClaimStatuses") or []
        names = {each["name"]: each.get("resourceClaimName", "") for each in statuses}
        claims = {}
        entries = {
            entry["name"]: entry.get("resourceClaimName") or names.get(entry["name"], "")
            for entry in pod.raw["spec"].get("resourceClaims") or []
        }
        for entry, name in entries.items():
            found = await self._api.get_claim(pod.namespace, name)
            if not any(each["uid"] == pod.uid for each in found.get("status", {}).get("reservedFor") or []):
                raise RetryableError(f"claim {name!r} is not reserved for pod {pod.full_name}")
            claims[entry] = ClaimRef(found["metadata"]["uid"], name, pod.namespace)
        if not claims:
            return {}
        if not self._kubelet.is_registered:
            raise RetryableError("no driver of claims is registered")
        self._prepared[pod.uid] = claims
        try:
            answers = await self._kubelet.prepare(*claims.values())
        except grpc.aio.AioRpcError as error:
            raise RetryableError(f"the driver of claims failed: {error.details()}") from error
        return {name: self._edits(answers[claim.uid]) for name, claim in claims.items()}

    def _edits(self, answer: dra_pb2.NodePrepareResourceResponse) -> pb.ContainerAllocateResponse:
        """What a container runtime makes of the CDI names of one claim, as if a plugin had answered it."""
        if answer.error:
            raise RetryableError(answer.error)
        edits = pb.ContainerAllocateResponse()
        for name in sorted({each for device in answer.devices for each in device.cdi_device_ids}):
            edits.cdi_devices.add(name=name)
            for edit in _find_edits(self._settings.root_dir / "cdi", name):
                for variable in edit.get("env") or []:
                    word, _, value = variable.partition("=")
                    edits.envs[word] = value
                for node in edit.get("deviceNodes") or []:
                    edits.devices.add(
                        container_path=node["path"],
                        host_path=node.get("hostPath", node["path"]),
                        permissions=node.get("permissions", "rwm"),
                    )
                for mount in edit.get("mounts") or []:
                    edits.mounts.add(
                        container_path=mount["containerPath"],
                        host_path=mount["hostPath"],
                        read_only="ro" in mount["options"],
                    )
        return edits


def _find_edits(directory: Path, name: str) -> list[JsonObject]:
    kind, _, device = name.partition("=")
    for path in sorted(directory.glob("*.json")):
        specification = json.loads(path.read_bytes())
        if specification["kind"] == kind:
            found = [each["containerEdits"] for each in specification["devices"] if each["name"] == device]
            if found:
                return [specification.get("containerEdits", {}), *found]
    raise RetryableError(f"unresolvable CDI devices {name}")
