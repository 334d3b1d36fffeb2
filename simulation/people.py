"""Users, admins and who forges or spoils: their requests to the API server for pods, nodes and the Secret."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from gcushare.scheduler_extender.mutual_tls.issuing import Terms, next_issue
from gcushare.wire.annotations import APART, ROOM_FOUND, PodRecord, encode_record
from gcushare.wire.contracts import CA_KEY, CLIENT_CERT, SERVER_CERT, SERVER_KEY
from gcushare.wire.pods import MACHINE_UID, MIRROR
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.patches import merge
from gcushare_playground.apiserver.storage import Revision
from simulation.certificates import KEY, TERMS
from simulation.kubelet import Kubelet
from simulation.store import Doc, Key
from simulation.world import ClusterWorld

NAMESPACE = "default"
AUTHORS = "authors"
"""The namespace of who forges mirrors: users' pods are judged by what is in theirs."""
USER, ADMIN, AUTHOR, TOKEN = "a user", "an admin", "an author who forges", "a stolen token"
FORGERS = (AUTHOR, TOKEN)


class Users:
    """They create, delete, force-delete, recreate and edit pods."""

    def __init__(self, world: ClusterWorld, kubelets: Mapping[str, Kubelet]) -> None:
        self._world = world
        self._kubelets = kubelets
        self._made: dict[str, Doc] = {}

    def create(
        self, name: str, whole: int, units: list[int], init: int, priority: int, grace: int, zone: str, apart: str = ""
    ) -> None:
        """Create a pod. ``units`` are those of each container, ``init`` of an init container: cards if ``whole``.

        ``apart``: the value of its label ``app``, if it shares no card with others of that value.
        """
        vendor = self._world.vendor
        memory = vendor.memory_resource
        limits: list[Doc] = [{memory: str(each)} for each in units] or [{vendor.whole_card_resource: str(whole)}]
        containers = [{"name": f"c{n}", "resources": {"limits": each}} for n, each in enumerate(limits)]
        spec: Doc = {
            "containers": containers,
            "priority": priority,
            "terminationGracePeriodSeconds": grace,
            "schedulerName": "default-scheduler",
            "nodeSelector": {"zone": zone} if zone else {},
        }
        if init:
            asked = vendor.whole_card_resource if whole else memory
            spec["initContainers"] = [{"name": "init-0", "resources": {"limits": {asked: str(init)}}}]
        self._create(name, spec, apart)

    def _create(self, name: str, spec: Doc, apart: str) -> None:
        meta: Doc = {"namespace": NAMESPACE, "name": name, "creationTimestamp": "2026-01-01T00:00:00Z"}
        meta["annotations"], meta["labels"] = ({APART: "app"}, {"app": apart}) if apart else ({}, {})
        try:
            self._world.store.create("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}, USER)
        except ApiFailure:
            return
        self._made[name] = spec

    def _pick(self, which: float) -> Revision | None:
        pods = pods_of_users(self._world)
        keys = sorted(pods)
        return pods[keys[int(which * len(keys))]] if keys else None

    def delete_one(self, which: float) -> None:
        """Delete a pod."""
        if (pod := self._pick(which)) is not None:
            self.delete(pod.key, pod.uid)

    def delete(self, key: Key, uid: str) -> None:
        """Delete a pod gracefully. A pod without a node is gone at once."""
        store = self._world.store
        pod = store.find("pods", key)
        if pod is None or pod.uid != uid:
            return
        if not pod.obj["spec"].get("nodeName"):
            store.delete("pods", key, USER)
        elif not pod.obj["metadata"].get("deletionTimestamp"):
            grace_s = pod.obj["spec"]["terminationGracePeriodSeconds"]
            meta = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace_s}
            store.update("pods", key, lambda doc: merge(doc, {"metadata": meta}), USER)

    def force(self, which: float) -> None:
        """Delete a pod's object by force, even if its containers run."""
        if (pod := self._pick(which)) is not None:
            self._world.store.delete("pods", pod.key, USER)

    def recreate(self, which: float) -> None:
        """Delete a pod by force and create another one with the same name at once."""
        if (pod := self._pick(which)) is not None:
            self._world.store.delete("pods", pod.key, USER)
            spec = {key: value for key, value in pod.obj["spec"].items() if key != "nodeName"}
            self._create(pod.key[1], spec, pod.obj["metadata"].get("labels", {}).get("app", ""))

    def finish(self, which: float, phase: str) -> None:
        """Let a pod's containers end by themselves."""
        pod = self._pick(which)
        kubelet = self._kubelets.get(pod.obj["spec"].get("nodeName", "")) if pod is not None else None
        if pod is not None and kubelet is not None and kubelet.is_up:
            self._world.loop.create_task(kubelet.finish(pod, phase), context=kubelet.process.context)

    def edit(self, which: float, card: str | None) -> None:
        """Change or remove the record of a pod, which users must not do."""
        if (pod := self._pick(which)) is not None:
            key = self._world.vendor.record.card_index
            self._world.store.update(
                "pods", pod.key, lambda doc: merge(doc, {"metadata": {"annotations": {key: card}}}), USER
            )

    def delete_all(self) -> None:
        """Delete everything."""
        for pod in list(pods_of_users(self._world).values()):
            self.delete(pod.key, pod.uid)


def pods_of_users(world: ClusterWorld) -> dict[Key, Revision]:
    """Every pod but those of the extender's replicas."""
    return {key: pod for key, pod in world.store.all("pods").items() if key[0] == NAMESPACE}


class Admins:
    """They cordon, relabel and roll out."""

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world

    def annotate(self, node: int, cards: str | None) -> None:
        """Cordon cards of a node by their annotation; None lifts all."""
        self.patch(node, {"metadata": {"annotations": {self._world.vendor.cordon_annotation: cards}}})

    def patch(self, node: int, patch: dict[str, Any]) -> None:
        """Change a Node."""
        self._world.store.update("nodes", ("", f"node-{node}"), lambda doc: merge(doc, patch), ADMIN)


class Forgers:
    """Authors of pods, and holders of a node's token, who write what only our programs may.

    The API server lets pass what its rules do: with the charts' admission policies a token writes on its own node and
    on that node's pods alone, and authors write no record. Without them all of it is written.
    """

    def __init__(self, world: ClusterWorld) -> None:
        self._world = world

    def forge_record(self, node: int | None, which: float, changes: dict[str, str | None]) -> None:
        """Change annotations of a pod; ``node`` is whose token does it, None for an author."""
        pods = list(pods_of_users(self._world).values())
        if not pods:
            return
        pod = pods[int(which * len(pods))]
        is_own = node is not None and pod.obj["spec"].get("nodeName") == f"node-{node}"
        allowed = {key: value for key, value in changes.items() if key == ROOM_FOUND and node is None}
        self._write("pods", pod.key, node, changes, changes if is_own else allowed)

    def forge_inventory(self, node: int, of: int, text: str | None) -> None:
        """Change a node's inventory by a node's token."""
        changes = {self._world.vendor.inventory_annotation: text}
        self._write("nodes", ("", f"node-{of}"), node, changes, changes if node == of else {})

    def forge_mirror(self, name: str, node: int, units: int, hash_of: str, which: float, *, with_record: bool) -> bool:
        """Create a pod that passes for a mirror, kept by a finalizer; False if a policy or the API server refuses it.

        ``hash_of``: whether it says that it has the "uid" or the "name" of a user's pod.
        """
        world, pods = self._world, list(pods_of_users(self._world).values())
        world.counts["forged mirrors"] += 1
        if world.settings.has_policies:
            return False
        annotations = {MIRROR: "x", MACHINE_UID: "x"}
        if hash_of and pods:
            victim = pods[int(which * len(pods))]
            annotations[MACHINE_UID] = victim.uid if hash_of == "uid" else "/".join(victim.key)
        if with_record:
            record = PodRecord(card_indexes=(0,), card_units=units, pod_units=units, assigned=True)
            annotations |= encode_record(world.vendor, record)
        meta = {"namespace": AUTHORS, "name": name, "annotations": annotations, "finalizers": ["authors/keep"]}
        limits = {world.vendor.memory_resource: str(units)}
        spec = {
            "nodeName": f"node-{node}",
            "containers": [{"name": "main", "resources": {"limits": limits}}],
            "terminationGracePeriodSeconds": 30,
        }
        try:
            world.store.create("pods", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}}, AUTHOR)
        except ApiFailure:
            return False
        return True

    def give_up(self, name: str) -> None:
        """Remove the finalizer of a forged mirror, which ends it."""
        if self._world.store.find("pods", (AUTHORS, name)) is not None:
            self._world.store.delete("pods", (AUTHORS, name), AUTHOR)

    def _write(
        self, plural: str, key: Key, node: int | None, changes: dict[str, str | None], allowed: dict[str, str | None]
    ) -> None:
        """Write what passes. A request with anything that a policy refuses is refused as a whole."""
        world = self._world
        if changes != allowed and world.settings.has_policies:
            world.counts["forged writes refused"] += 1
            return
        world.counts["forged writes"] += 1
        patch = {"metadata": {"annotations": changes}}
        world.store.update(plural, key, lambda doc: merge(doc, patch), AUTHOR if node is None else TOKEN)


class Secrets:
    """They create the certificates' Secret as the chart does, and spoil it."""

    def __init__(self, world: ClusterWorld, now: Callable[[], datetime]) -> None:
        self._world = world
        self._now = now

    def create(self) -> None:
        """Create it empty, unless it is there."""
        if self._world.store.find("secrets", KEY) is None:
            metadata = {"namespace": KEY[0], "name": KEY[1]}
            self._world.store.create("secrets", {"metadata": metadata, "data": {}}, ADMIN)

    def spoil(self, how: str) -> None:
        """Delete it, or write what does not belong into it."""
        store = self._world.store
        if store.find("secrets", KEY) is None:
            return
        if how == "lost":
            store.delete("secrets", KEY, ADMIN)
            return
        data = dict(store.read("secrets", KEY).obj["data"])
        if how == "replaced":
            other = next_issue({}, Terms(("another",), TERMS.life), self._now())
            found = other.data if other is not None else {}
            data = {key: base64.b64encode(value).decode() for key, value in found.items()}
        elif SERVER_CERT in data:
            torn = base64.b64encode(base64.b64decode(data[SERVER_CERT])[:100]).decode()
            match how:
                case "half written":
                    data = {key: text for key, text in data.items() if key not in (CA_KEY, CLIENT_CERT)}
                case "torn":
                    data[SERVER_CERT] = torn
                case "swapped":
                    data[SERVER_KEY] = data.get(CA_KEY, torn)
        store.update("secrets", KEY, lambda doc: {**doc, "data": data}, ADMIN)
