"""Two nodes with a pod each, and what holds the plugin's token of the first one: the side of a compromised node."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from gcushare.kube.client import KubeClient
from gcushare.kube.connection.config import find_api_server
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.e2e.control_plane import NODE, PATIENT, ControlPlane
from tests.e2e.installing import DEPLOY, account_kubeconfig, kubectl
from tests.e2e.objects import node, pod

OTHER_NODE = "node-2"
FAR_POD = "far"
PLUGIN = "system:serviceaccount:kube-system:gcushare-device-plugin"
AS_PLUGIN = {
    "Impersonate-User": PLUGIN,
    "Impersonate-Group": "system:serviceaccounts",
    "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name": NODE,
}
"""The stolen token's identity, for requests that our own client cannot make."""


@dataclass(frozen=True, slots=True)
class TwoNodes:
    """``stolen`` speaks with the plugin's token of `NODE`; `FAR_POD` runs on `OTHER_NODE`."""

    control_plane: ControlPlane
    stolen: KubeClient

    async def send(self, method: str, path: str, body: Any = None, content: str = "application/json") -> int:
        """Send one request with the stolen identity; returns the HTTP status."""
        headers = {**AS_PLUGIN, "Content-Type": content}
        url = f"{self.control_plane.url}{path}"
        async with self.control_plane.http.request(method, url, json=body, headers=headers) as answer:
            await answer.read()
            return answer.status


@asynccontextmanager
async def open_two_nodes(control_plane: ControlPlane, files: Sequence[str]) -> AsyncIterator[TwoNodes]:
    """Apply these plain manifests and make the nodes and the pod; nothing of the manifests runs."""
    client = control_plane.client
    for file in files:
        path = DEPLOY / "manifests" / "enflame" / f"{file}.yaml"
        await asyncio.to_thread(kubectl, control_plane, "apply", "-f", str(path))
    for name in (NODE, OTHER_NODE):
        await client.create(NODE_OBJECTS, node(name, 16))
    await client.create(POD_OBJECTS, pod(FAR_POD, 4, nodeName=OTHER_NODE), namespace="default")
    kubeconfig = await account_kubeconfig(control_plane, "gcushare-device-plugin", on_node=True)
    async with KubeClient(find_api_server(str(kubeconfig)), limits=PATIENT) as stolen:
        yield TwoNodes(control_plane, stolen)
