"""One node for the tests of how kubelets behave: a kubelet, the double or a real one, and a device plugin."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import grpc
import grpc.aio
import msgspec

from gcushare.kube.client import KubeClient
from gcushare.kube.resources import PODS
from gcushare.wire.protos import podresources_pb2 as pb
from gcushare.wire.protos import services
from gcushare_playground.picture import phase_of, poll_until
from tests.protocol.followed import Followed
from tests.protocol.reference_plugin import ReferencePlugin, devices

NODE = "node-1"
IDS = tuple(f"id-{number}" for number in range(8))
"""What the plugin offers."""

JsonObject = dict[str, Any]
_numbers = itertools.count()


class KubeletBackend(Protocol):
    """What the double and the real kubelet need different hands for."""

    client: KubeClient
    root: Path
    """The kubelet's folder."""
    image: str

    async def restart(self) -> None:
        """Kill the kubelet and start it again."""

    async def end_container(self, pod: JsonObject, container: str) -> None:
        """Let a container's process end with 0."""

    async def environment(self, pod: JsonObject, container: str) -> Mapping[str, str]:
        """What a container that runs sees."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the kubelet's record says that a container holds."""

    by_numa: Mapping[str, list[str]]
    answer: bytes

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(id_ for ids in self.by_numa.values() for id_ in ids)


class NodeUnderTest(Followed):
    """Leaving the block deletes the pods and stops the plugin. Each has a resource of its own: tests share a node."""

    def __init__(self, backend: KubeletBackend) -> None:
        super().__init__(backend.client)
        self.backend = backend
        number = next(_numbers)
        self.resource = f"example.com/resource-{number}"
        self.plugin = ReferencePlugin(self.plugin_dir, self.resource, devices(IDS), socket=f"plugin-{number}.sock")
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        await self._stack.enter_async_context(self.plugin)
        await self.plugin.register()
        await self.offers(len(IDS), len(IDS))
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            for each in list(self.pods.objects.values()):
                await self.delete(each["metadata"]["name"], grace_s=0)
            await self._stack.aclose()
        finally:
            await super().__aexit__()

    @property
    def plugin_dir(self) -> Path:
        return self.backend.root / "device-plugins"

    async def offers(self, capacity: int, allocatable: int) -> None:
        """Wait until the Node has these two counts."""

        def found() -> list[str | None]:
            status = self.nodes.objects.get(NODE, {}).get("status", {})
            return [status.get(part, {}).get(self.resource) for part in ("capacity", "allocatable")]

        await self.nodes.until(
            lambda: found() == [str(capacity), str(allocatable)],
            f"{NODE} offers {allocatable} of {capacity}",
            shown=lambda: str(found()),
        )

    async def restart_kubelet(self) -> None:
        """Restart it and wait until plugins can register; the plugin's socket is gone then."""
        before = self._socket_times()
        await self.backend.restart()

        async def old() -> str | None:
            found = self._socket_times()
            return None if found and found != before else "the socket from before" if found else "no socket"

        await poll_until(old, "the kubelet has a new socket")

    async def start_plugin(self) -> None:
        """Have the plugin listen again and register, as one does that finds a new kubelet."""
        await self.plugin.stop()
        await self.plugin.serve()
        await self.plugin.register()
        await self.offers(len(IDS), len(IDS))

    def _socket_times(self) -> list[int]:
        return [each.stat().st_mtime_ns for each in self.plugin_dir.glob("kubelet.sock")]

    # Pods

    def container(self, name: str, count: int, **extra: Any) -> JsonObject:
        limits = {self.resource: str(count)} if count else {}
        image = {"image": self.backend.image, "imagePullPolicy": "Never"}
        return {"name": name, **image, "resources": {"limits": limits}, **extra}

    def init(self, name: str, count: int) -> JsonObject:
        """An init container that ends at once."""
        return self.container(name, count, args=["end"])

    def sidecar(self, name: str, count: int) -> JsonObject:
        return self.container(name, count, restartPolicy="Always")

    async def create(self, name: str, *containers: JsonObject, init: Iterable[JsonObject] = (), **spec: Any) -> str:
        """Create a pod that is bound already and return its uid."""
        whole = {
            "nodeName": NODE, "hostNetwork": True, "terminationGracePeriodSeconds": 1,
            "initContainers": list(init), "containers": list(containers), **spec,
        }  # fmt: skip
        made = await self.client.create(PODS, {"metadata": {"name": name}, "spec": whole}, namespace="default")
        return made.metadata.uid

    async def run(self, name: str, *containers: JsonObject, init: Iterable[JsonObject] = (), **spec: Any) -> str:
        """Create a pod, wait until it runs and return its uid."""
        uid = await self.create(name, *containers, init=init, **spec)
        await self.until_phase(name, "Running", uid)
        return uid

    async def refused(self, name: str, *containers: JsonObject, init: Iterable[JsonObject] = ()) -> tuple[str, str]:
        """Create a pod that is not admitted; returns reason and message of its status."""
        await self.create(name, *containers, init=init)
        status = (await self.until_phase(name, "Failed"))["status"]
        return status["reason"], status["message"]

    async def until_phase(self, name: str, phase: str, uid: str = "") -> JsonObject:
        """Wait for the pod of that name, or of that uid among those that had the name, and return it."""

        def found() -> JsonObject:
            return self.pods.objects.get(f"default/{name}", {})

        await self.pods.until(
            lambda: phase_of(found()) == phase and uid in ("", found()["metadata"]["uid"]),
            f"{name} is {phase}",
            shown=lambda: str(found().get("status")),
            deadline_s=60.0,
        )
        return found()

    async def until_restarted(self, name: str) -> None:
        """Wait until a pod's first container was started again."""

        def restarts() -> int:
            return int(self.pods.objects[f"default/{name}"]["status"]["containerStatuses"][0]["restartCount"])

        await self.pods.until(lambda: restarts() == 1, f"the container of {name} started again")

    async def delete(self, name: str, *, grace_s: int | None = None) -> None:
        """Delete a pod and wait until it is gone."""
        await self.client.delete(PODS, name, namespace="default", grace_s=grace_s)
        await self.pods.until(lambda: f"default/{name}" not in self.pods.objects, f"{name} is gone")

    async def end(self, name: str, container: str = "main") -> None:
        """Let a container end by itself; the pod's restart policy says what follows."""
        await self.backend.end_container(self.pods.objects[f"default/{name}"], container)

    async def environment(self, name: str, container: str = "main") -> Mapping[str, str]:
        return await self.backend.environment(self.pods.objects[f"default/{name}"], container)

    # What the kubelet says and keeps

    def recorded(self) -> dict[tuple[str, str], Entry]:
        """The checkpoint's entries of the resource, by pod uid and container."""
        return {
            (each["PodUID"], each["ContainerName"]): Entry(
                {numa: sorted(ids) for numa, ids in each["DeviceIDs"].items()}, base64.b64decode(each["AllocResp"])
            )
            for each in self._checkpoint()["PodDeviceEntries"] or ()
            if each["ResourceName"] == self.resource
        }

    def held(self, uid: str, container: str = "main") -> frozenset[str]:
        """The ids that the checkpoint says a container holds."""
        return self.recorded()[uid, container].ids

    def recorded_ids(self) -> list[str]:
        """The ids of the resource that the checkpoint names as registered, sorted."""
        return sorted(self._checkpoint()["RegisteredDevices"][self.resource])

    def _checkpoint(self) -> JsonObject:
        data: JsonObject = msgspec.json.decode((self.plugin_dir / "kubelet_internal_checkpoint").read_bytes())["Data"]
        return data

    async def listed(self) -> dict[str, dict[str, frozenset[str]]]:
        """What the pod resources API lists: ids by pod and container."""
        answer = await self._list()
        return {
            f"{each.namespace}/{each.name}": self._ids_by_container(each)
            for each in answer.pod_resources
            if each.namespace == "default"
        }

    async def until_listed(self, expected: Mapping[str, Mapping[str, frozenset[str]]]) -> None:
        """Wait until the pod resources API lists this."""

        async def other() -> str | None:
            found = await self.listed()
            return None if found == expected else str(found)

        await poll_until(other, f"pod resources are {expected}", deadline_s=60.0)

    async def listed_numa(self, name: str) -> dict[str, list[int]]:
        """The NUMA nodes that the pod resources API names with each id of a pod."""
        answer = await self._list()
        containers = (each for pod in answer.pod_resources if pod.name == name for each in pod.containers)
        found = [each for container in containers for each in container.devices]
        return {id_: [node.ID for node in each.topology.nodes] for each in found for id_ in each.device_ids}

    def _ids_by_container(self, pod: pb.PodResources) -> dict[str, frozenset[str]]:
        return {
            container.name: frozenset(
                id_ for each in container.devices if each.resource_name == self.resource for id_ in each.device_ids
            )
            for container in pod.containers
        }

    async def _list(self) -> pb.ListPodResourcesResponse:
        options = (("grpc.use_local_subchannel_pool", 1),)
        socket = self.backend.root / "pod-resources" / "kubelet.sock"
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=options) as channel:
            answer = await channel.unary_unary(services.POD_RESOURCES_LIST)(b"", timeout=30)
            return pb.ListPodResourcesResponse.FromString(answer)
