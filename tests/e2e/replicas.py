"""The extender's Deployment under the real controllers; this plays the kubelets that run its pods as processes."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import aiohttp

from gcushare.core.errors import ConflictError, GcushareError, NotFoundError
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import Selector
from gcushare_playground.picture import POD_OBJECTS
from gcushare_playground.processes import Child
from tests.e2e.node_side import with_kubeconfig
from tests.e2e.objects import JsonObject
from tests.e2e.scheduling import Scheduling

NAMESPACE = "kube-system"
CONTROL_NODES = ("control-1", "control-2")
_LOOK_S = 0.1
_PROBE = aiohttp.ClientTimeout(total=1.0)


@dataclass
class Replica:
    """One pod and its process."""

    pod: str
    address: str
    child: Child
    is_cut_off: bool = False
    """Its node is: nothing of it reaches the API server any more."""
    is_ready: bool | None = None
    ending: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return self.child.addresses[0] if self.child.is_running and self.child.addresses else ""


class Kubelets:
    """Runs each pod of the Deployment as a process, probes it, and reports it to the API server."""

    def __init__(self, scheduling: Scheduling, kubeconfig: Path) -> None:
        self._scheduling = scheduling
        self._kubeconfig = kubeconfig
        self._client = scheduling.client
        self._numbers = iter(range(1, 250))
        self.replicas: dict[str, Replica] = {}
        self._task: asyncio.Task[None]

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="kubelets")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
        if not self._task.cancelled():
            self._task.result()

    def url_of(self, address: str) -> str:
        return next((each.url for each in self.replicas.values() if each.address == address), "")

    async def _run(self) -> None:
        selector = Selector(namespace=NAMESPACE, labels="app.kubernetes.io/component=extender")
        async with aiohttp.ClientSession(timeout=_PROBE) as http:
            while True:
                pods = await self._client.list_all(POD_OBJECTS, selector)
                await asyncio.gather(*(self._look_at(each, http) for each in pods))
                await asyncio.sleep(_LOOK_S)

    async def _look_at(self, pod: JsonObject, http: aiohttp.ClientSession) -> None:
        name = pod["metadata"]["name"]
        replica = self.replicas.get(name)
        if replica is None:
            await self._start(pod)
        elif replica.is_cut_off:
            return
        elif pod["metadata"].get("deletionTimestamp"):
            replica.ending = replica.ending or asyncio.create_task(self._end(replica), name=f"end {name}")
        else:
            is_ready = await _is_ready(http, replica)
            if is_ready is not replica.is_ready:
                replica.is_ready = is_ready
                await self._report(replica)

    async def _start(self, pod: JsonObject) -> None:
        name, number = pod["metadata"]["name"], next(self._numbers)
        (container,) = pod["spec"]["containers"]
        own = {each["name"]: name for each in container.get("env", ()) if "valueFrom" in each}
        flags = [each for each in container["args"] if each.startswith("--lease")]
        command = self._scheduling.extender_command(flags=flags)
        command = with_kubeconfig(replace(command, name=name, environ={**command.environ, **own}), self._kubeconfig)
        child = self._scheduling.control_plane.children[name] = Child(command)
        self.replicas[name] = Replica(name, f"10.77.0.{number}", child)
        body = {"target": {"kind": "Node", "name": CONTROL_NODES[number % 2]}, "metadata": {"name": name}}
        url = f"{self._scheduling.control_plane.url}/api/v1/namespaces/{NAMESPACE}/pods/{name}/binding"
        async with self._scheduling.control_plane.http.post(url, json=body) as answer:
            assert answer.status == 201, await answer.text()
        await child.start(deadline_s=180.0)

    async def _report(self, replica: Replica) -> None:
        conditions = [{"type": "Ready", "status": str(bool(replica.is_ready))}]
        status: dict[str, Any] = {
            "phase": "Running",
            "podIP": replica.address,
            "podIPs": [{"ip": replica.address}],
            "conditions": conditions,
        }
        patch = Patch(PatchKind.STRATEGIC, {"status": status})
        with contextlib.suppress(NotFoundError, ConflictError):
            await self._client.patch(POD_OBJECTS, replica.pod, patch, namespace=NAMESPACE, subresource="status")

    async def _end(self, replica: Replica) -> None:
        await replica.child.stop(grace_s=20.0)
        with contextlib.suppress(GcushareError):
            await self._client.delete(POD_OBJECTS, replica.pod, namespace=NAMESPACE, grace_s=0)


async def _is_ready(http: aiohttp.ClientSession, replica: Replica) -> bool:
    if not replica.child.is_running or len(replica.child.addresses) < 2:
        return False
    try:
        async with http.get(f"{replica.child.addresses[1]}/readyz") as answer:
            return answer.status == 200
    except (aiohttp.ClientError, TimeoutError):
        return False
