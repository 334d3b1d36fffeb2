"""The kubelet's side of resource claims: finds drivers in ``plugins_registry`` and calls them, lost and repeated too.

As the stock kubelet: every socket in the folder is asked for its driver and gets the outcome.
Source: pkg/kubelet/pluginmanager and pkg/kubelet/cm/dra of Kubernetes 1.36.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from gcushare.wire.protos import dra_pb2, plugin_registration_pb2, services
from gcushare_playground.lifetime import Startable

CALL_TIMEOUT_S = 45.0
"""The kubelet's own."""
_OPTIONS = (("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0))


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as the kubelet names it."""

    uid: str
    name: str
    namespace: str = "default"

    def message(self) -> dra_pb2.Claim:
        """Build its message."""
        return dra_pb2.Claim(uid=self.uid, name=self.name, namespace=self.namespace)


class DraKubelet(Startable):
    """One kubelet; ``known`` is the service that it calls, as registrations name it."""

    def __init__(self, root: Path, known: str = services.DRA_VERSION) -> None:
        self.registry = root / "plugins_registry"
        self.registry.mkdir(parents=True, exist_ok=True)
        self._known = known
        self._channel: grpc.aio.Channel | None = None

    async def stop(self) -> None:
        if self._channel is not None:
            await self._channel.close()
        self._channel = None

    @property
    def is_registered(self) -> bool:
        """Whether a driver can be called."""
        return self._channel is not None

    async def find_driver(self) -> plugin_registration_pb2.PluginInfo | None:
        """Ask the sockets in the registry, register the first driver that answers, and say so; None if none does."""
        for socket in sorted(self.registry.glob("*.sock")):
            with contextlib.suppress(grpc.aio.AioRpcError):
                async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
                    answer = await channel.unary_unary(services.GET_INFO)(b"", timeout=1.0)
                    info = plugin_registration_pb2.PluginInfo.FromString(answer)
                    error = await self._register(info)
                    status = plugin_registration_pb2.RegistrationStatus(plugin_registered=not error, error=error)
                    notify = channel.unary_unary(services.NOTIFY_REGISTRATION_STATUS)
                    await notify(status.SerializeToString(), timeout=1.0)
                return info
        return None

    async def prepare(
        self, *claims: ClaimRef, timeout_s: float = CALL_TIMEOUT_S
    ) -> dict[str, dra_pb2.NodePrepareResourceResponse]:
        """Have claims prepared; the answers by uid.

        Raises:
            grpc.aio.AioRpcError: the call failed as a whole, or its answer did not come in time.
        """
        request = dra_pb2.NodePrepareResourcesRequest(claims=[each.message() for each in claims])
        answer = await self._call(services.NODE_PREPARE_RESOURCES, request.SerializeToString(), timeout_s)
        return dict(dra_pb2.NodePrepareResourcesResponse.FromString(answer).claims)

    async def unprepare(self, *claims: ClaimRef, timeout_s: float = CALL_TIMEOUT_S) -> dict[str, str]:
        """Have claims unprepared; the errors by uid.

        Raises:
            grpc.aio.AioRpcError: the call failed as a whole, or its answer did not come in time.
        """
        request = dra_pb2.NodeUnprepareResourcesRequest(claims=[each.message() for each in claims])
        answer = await self._call(services.NODE_UNPREPARE_RESOURCES, request.SerializeToString(), timeout_s)
        found = dra_pb2.NodeUnprepareResourcesResponse.FromString(answer).claims
        return {uid: each.error for uid, each in found.items()}

    async def _call(self, method: str, request: bytes, timeout_s: float) -> bytes:
        assert self._channel is not None, "no driver is registered"
        call = self._channel.unary_unary(f"/{services.DRA_SERVICE}/{method}")
        answer: bytes = await call(request, timeout=timeout_s)
        return answer

    async def _register(self, info: plugin_registration_pb2.PluginInfo) -> str:
        if info.type != services.DRA_PLUGIN_TYPE or self._known not in info.supported_versions:
            return f"none of {list(info.supported_versions)} is supported by the kubelet ({self._known})"
        await self.stop()
        self._channel = grpc.aio.insecure_channel(f"unix:{info.endpoint}", options=_OPTIONS)
        return ""
