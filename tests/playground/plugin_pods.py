"""The pods of the device plugin's DaemonSets, as their controller and the kubelets make them: ready, unless a test says
what keeps a node's pod from starting."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

from gcushare_playground.apiserver import ApiServer, Deletion
from gcushare_playground.apiserver.objects import JsonObject, Key
from gcushare_playground.apiserver.resources import BY_NAME

VENDOR = "gcushare.io/vendor"
READY = {"type": "Ready", "status": "True"}
Step = Callable[[], object]


@dataclass(frozen=True)
class Obstacle:
    """What keeps the pod of one node from starting: its status, and the Warning event of the kubelet or the plugin."""

    status: JsonObject = field(default_factory=dict)
    reason: str = ""
    message: str = ""
    about: str = "Pod"
    component: str = "kubelet"


NO_LIBRARY = Obstacle(
    reason="FailedMount",
    message='MountVolume.SetUp failed for volume "efml" : '
    "hostPath type check failed: /usr/lib/libefml.so is not a file",
)
NO_IMAGE = Obstacle(
    {
        "containerStatuses": [
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": 'Back-off pulling image "registry/image"'}}}
        ]
    }
)
NO_CPU = Obstacle(
    {
        "conditions": [
            {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available: 2 Insufficient cpu."}
        ]
    }
)
NO_CARDS = Obstacle(reason="NoCards", message="efml found no card", about="Node", component="gcushare-device-plugin")


@dataclass
class PluginPods:
    """Keeps one pod on every node that a plugin's DaemonSet selects; ``obstacles`` by the name of the node."""

    server: ApiServer
    obstacles: dict[str, Obstacle] = field(default_factory=dict)

    async def run(self) -> None:
        """Do what is to be done, until cancelled."""
        while True:
            for step in await self.server.store.until(lambda: list(self._steps()), timeout_s=None):
                step()

    def _steps(self) -> Iterator[Step]:
        sets = [each for each in self.server.store.list("daemonsets.apps") if VENDOR in _labels(each)]
        wanted = {self._name(each, node): (each, node) for each in sets for node in self._nodes(each)}
        pods = {each["metadata"]["name"]: each for each in self.server.store.list("pods") if VENDOR in _labels(each)}
        for name in sorted(pods.keys() - wanted.keys()):
            yield partial(self._remove, pods[name])
        for name in sorted(wanted.keys() - pods.keys()):
            yield partial(self._make, name, *wanted[name])
        for each in sets:
            if each.get("status") != self._status(each):
                yield partial(self._count, each)

    def _nodes(self, daemon_set: JsonObject) -> list[str]:
        selector = daemon_set["spec"]["template"]["spec"]["nodeSelector"].items()
        return [
            each["metadata"]["name"] for each in self.server.store.list("nodes") if selector <= _labels(each).items()
        ]

    @staticmethod
    def _name(daemon_set: JsonObject, node: str) -> str:
        return f"{daemon_set['metadata']['name']}-{node}"

    def _status(self, daemon_set: JsonObject) -> JsonObject:
        count = len(self._nodes(daemon_set))
        ready = sum(node not in self.obstacles for node in self._nodes(daemon_set))
        return {
            "observedGeneration": daemon_set["metadata"]["generation"],
            "desiredNumberScheduled": count,
            # With OnDelete its pods are of an older version until somebody deletes them.
            "updatedNumberScheduled": 0 if daemon_set["spec"]["updateStrategy"]["type"] == "OnDelete" else count,
            "numberReady": ready,
        }

    def _make(self, name: str, daemon_set: JsonObject, node: str) -> None:
        template = daemon_set["spec"]["template"]
        obstacle = self.obstacles.get(node)
        namespace = daemon_set["metadata"]["namespace"]
        metadata = {"name": name, "namespace": namespace, "labels": template["metadata"]["labels"]}
        containers = [{"name": "plugin", "image": template["spec"]["containers"][0]["image"]}]
        spec: JsonObject = {"nodeName": node, "containers": containers}
        if obstacle is NO_CPU:
            spec = {"affinity": _affinity(node), "containers": containers}
        self.server.registry.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        status: JsonObject = {"phase": "Running", "conditions": [READY]}
        if obstacle is not None:
            status = {"phase": "Pending", **obstacle.status}
        key = Key(namespace, name)
        self.server.registry.update(BY_NAME["pods"], key, lambda obj: {**obj, "status": status}, status_only=True)
        if obstacle is not None and obstacle.reason:
            self._warn(obstacle, node if obstacle.about == "Node" else name, namespace)

    def _warn(self, obstacle: Obstacle, name: str, namespace: str) -> None:
        namespace = "default" if obstacle.about == "Node" else namespace
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.{obstacle.reason.lower()}", "namespace": namespace},
            "involvedObject": {"kind": obstacle.about, "name": name}
            | ({"namespace": namespace} if obstacle.about == "Pod" else {}),
            "type": "Warning",
            "reason": obstacle.reason,
            "message": obstacle.message,
            "lastTimestamp": self.server.registry.now,
            "source": {"component": obstacle.component},
        }
        self.server.registry.put(event)

    def _remove(self, pod: JsonObject) -> None:
        key = Key(pod["metadata"]["namespace"], pod["metadata"]["name"])
        self.server.registry.delete(BY_NAME["pods"], key, Deletion(grace_s=0))

    def _count(self, daemon_set: JsonObject) -> None:
        key = Key(daemon_set["metadata"]["namespace"], daemon_set["metadata"]["name"])
        status = self._status(daemon_set)
        self.server.registry.update(
            BY_NAME["daemonsets.apps"], key, lambda obj: {**obj, "status": status}, status_only=True
        )


def _labels(obj: JsonObject) -> dict[str, str]:
    found: dict[str, str] = obj["metadata"].get("labels", {})
    return found


def _affinity(node: str) -> JsonObject:
    """What the DaemonSet controller writes into a pod until it is scheduled."""
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
