"""Groups of nodes under the real DaemonSet controller: one plugin on each node, of the group that its label names."""

from __future__ import annotations

import asyncio

from gcushare.core.assignments import PodRef
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, Selector
from gcushare.vendors import ENFLAME
from gcushare.wire.contracts import NODE_GROUP_LABEL
from gcushare_playground.picture import NODE_OBJECTS, POD_OBJECTS
from tests.charts import PLUGIN_CHART, needs_helm, render_text
from tests.e2e.claims import start_controller_manager
from tests.e2e.control_plane import ControlPlane
from tests.e2e.installing import kubectl
from tests.e2e.objects import JsonObject, node
from tests.e2e.waiting import until

pytestmark = needs_helm
VALUES = "nodeGroups: {a: {memoryUnit: 0.1}, b: {mode: whole}}\nclaims: {enabled: true}"


def target(pod: JsonObject) -> str:
    """The node that the DaemonSet's controller has a pod for."""
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (name,) = {field["values"][0] for term in required["nodeSelectorTerms"] for field in term["matchFields"]}
    return str(name)


async def groups(cluster: ControlPlane) -> dict[str, list[str]]:
    """The groups of the plugins that run on each node, or are about to; "" is that of no group."""
    found: dict[str, list[str]] = {}
    for pod in await cluster.client.list_all(POD_OBJECTS, Selector(namespace="kube-system")):
        if "deletionTimestamp" in pod["metadata"]:
            continue
        found.setdefault(target(pod), []).append(pod["metadata"]["labels"].get(NODE_GROUP_LABEL, ""))
    return found


async def test_a_node_has_one_plugin_and_a_new_label_brings_that_of_its_group(control_plane: ControlPlane) -> None:
    client = control_plane.client
    for name, labels in (("n1", {}), ("n2", {NODE_GROUP_LABEL: "a"}), ("n3", {NODE_GROUP_LABEL: "unknown"})):
        body = node(name, 16)
        body["metadata"]["labels"] |= {"kubernetes.io/os": "linux", **labels}
        await client.create(NODE_OBJECTS, body)
    manifest = render_text(PLUGIN_CHART, values=VALUES, hooks=False)
    await asyncio.to_thread(kubectl, control_plane, "apply", "-f", "-", stdin=manifest)
    await start_controller_manager(control_plane, ("daemonset-controller",))

    async def expect(wanted: dict[str, list[str]]) -> None:
        async def differs() -> str:
            found = await groups(control_plane)
            return "" if found == wanted else f"plugins run as {found}"

        await until(differs, f"plugins run as {wanted}", deadline_s=60)
        # As kube-scheduler does: for a changed node the controller reads its bound pods alone.
        for pod in await client.list_all(POD_OBJECTS, Selector(namespace="kube-system")):
            if "nodeName" not in pod["spec"]:
                identity = PodRef(pod["metadata"]["uid"], "kube-system", pod["metadata"]["name"])
                await client.bind_pod(identity, target(pod), {})

    await expect({"n1": [""], "n2": ["a"], "n3": [""]})
    for value, wanted in (("b", ["b"]), (None, [""])):
        change = Patch(PatchKind.MERGE, {"metadata": {"labels": {NODE_GROUP_LABEL: value}}})
        await client.patch(NODES, "n2", change)
        await expect({"n1": [""], "n2": wanted, "n3": [""]})
    gone = Patch(PatchKind.MERGE, {"metadata": {"labels": {ENFLAME.label_key: None}}})
    await client.patch(NODES, "n1", gone)
    await expect({"n2": [""], "n3": [""]})
