"""What is particular to a kind when its objects are written; kinds without an entry get :class:`Strategy` as it is."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator

from gcushare_playground.apiserver.claim_admission import admit_claims
from gcushare_playground.apiserver.failures import Cause, bad_request
from gcushare_playground.apiserver.objects import JsonObject, Key, dig, labels_of, metadata
from gcushare_playground.apiserver.pod_rules import (
    admit_spec,
    check_amount,
    check_spec,
    check_spec_update,
    default_spec,
)
from gcushare_playground.apiserver.quantities import canonicalise
from gcushare_playground.apiserver.resources import Resource
from gcushare_playground.apiserver.storage import Storage


class Strategy:
    """A kind's hooks; they change only the object given to them, and every one may be repeated."""

    keeps_created_status = False
    """True where a creator may set status (nodes: the kubelet registers its node complete)."""
    graceful = False
    """True where deletion waits for a grace period (pods)."""

    def default(self, obj: JsonObject) -> None:
        """Fill in what the client left open; on create and on every update."""

    def create(self, obj: JsonObject, storage: Storage) -> None:
        """Set what only creation sets."""

    def check(self, obj: JsonObject) -> Iterator[Cause]:
        """Yield the kind's rules that the object breaks."""
        yield from ()

    def check_update(self, new: JsonObject, old: JsonObject) -> Iterator[Cause]:
        """Yield the rules that the change breaks."""
        yield from ()


class PodStrategy(Strategy):
    """Pods: defaulted, integers for extended resources, a spec that hardly changes."""

    graceful = True

    def default(self, obj: JsonObject) -> None:
        spec = _section(obj, "spec")
        default_spec(spec)
        admit_spec(spec)

    def create(self, obj: JsonObject, storage: Storage) -> None:
        spec = obj["spec"]
        classes = storage.collection("priorityclasses.scheduling.k8s.io")
        if priority := classes.get(Key("", spec.get("priorityClassName", ""))):
            spec["priority"] = priority.obj.get("value", 0)
            spec["preemptionPolicy"] = priority.obj.get("preemptionPolicy", "PreemptLowerPriority")
        if namespace := storage.collection("namespaces").get(Key("", metadata(obj)["namespace"])):
            admit_claims(obj, labels_of(namespace.obj))
        obj["status"] = {"phase": "Pending"}
        if spec.get("schedulingGates"):
            waiting = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
            obj["status"]["conditions"] = [waiting]

    def check(self, obj: JsonObject) -> Iterator[Cause]:
        yield from check_spec(obj["spec"])

    def check_update(self, new: JsonObject, old: JsonObject) -> Iterator[Cause]:
        yield from check_spec_update(new["spec"], old["spec"])


class NodeStrategy(Strategy):
    """Nodes: register with their status; capacities of extended resources are integers."""

    keeps_created_status = True

    def default(self, obj: JsonObject) -> None:
        _section(obj, "spec")
        status = obj.setdefault("status", {})
        canonicalise(status.get("capacity"))
        if "allocatable" in status:
            canonicalise(status["allocatable"])
        elif "capacity" in status:
            status["allocatable"] = dict(status["capacity"])

    def check(self, obj: JsonObject) -> Iterator[Cause]:
        for kind in ("capacity", "allocatable"):
            for resource, amount in dig(obj, "status", kind, default={}).items():
                yield from check_amount(f"status.{kind}.{resource}", resource, amount)


class NamespaceStrategy(Strategy):
    """Namespaces: always active; nothing inside is deleted with them."""

    def default(self, obj: JsonObject) -> None:
        name = metadata(obj).get("name", "")
        metadata(obj).setdefault("labels", {})["kubernetes.io/metadata.name"] = name

    def create(self, obj: JsonObject, storage: Storage) -> None:
        obj["status"] = {"phase": "Active"}


class WorkloadStrategy(Strategy):
    """Kinds with a pod template and a selector."""

    def __init__(self, spec_defaults: JsonObject) -> None:
        self._spec_defaults = spec_defaults

    def default(self, obj: JsonObject) -> None:
        spec = _section(obj, "spec")
        for name, value in self._spec_defaults.items():
            spec.setdefault(name, dict(value) if isinstance(value, dict) else value)
        template = _section(spec, "template")
        template.setdefault("metadata", {})
        default_spec(_section(template, "spec"))

    def create(self, obj: JsonObject, storage: Storage) -> None:
        obj["status"] = {}

    def check(self, obj: JsonObject) -> Iterator[Cause]:
        spec = obj["spec"]
        if not dig(spec, "selector", "matchLabels"):
            yield Cause("spec.selector", "Required value", "FieldValueRequired")
        yield from check_spec(spec["template"]["spec"], prefix="spec.template.")


class ServiceStrategy(Strategy):
    """Services: an address of the service range, ports with a protocol and a target."""

    def default(self, obj: JsonObject) -> None:
        spec = _section(obj, "spec")
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        spec.setdefault("internalTrafficPolicy", "Cluster")
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))

    def create(self, obj: JsonObject, storage: Storage) -> None:
        spec = obj["spec"]
        if spec["type"] != "ExternalName":
            address = spec.setdefault("clusterIP", "") or f"10.96.{_number(obj) // 256}.{_number(obj) % 256}"
            spec.update(clusterIP=address, clusterIPs=[address], ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
        if spec["type"] in ("NodePort", "LoadBalancer"):
            for index, port in enumerate(spec.get("ports") or []):
                port.setdefault("nodePort", 30000 + (_number(obj) + index) % 2768)
        obj["status"] = {"loadBalancer": {}}

    def check_update(self, new: JsonObject, old: JsonObject) -> Iterator[Cause]:
        for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if name in old["spec"]:
                new["spec"].setdefault(name, old["spec"][name])
        yield from ()


class SecretStrategy(Strategy):
    """Secrets: ``stringData`` becomes base64 ``data``."""

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("type", "Opaque")
        for name, text in (obj.pop("stringData", None) or {}).items():
            obj.setdefault("data", {})[name] = base64.b64encode(str(text).encode()).decode()


class LeaseStrategy(Strategy):
    """Leases: a duration, where there is one, is above zero."""

    def check(self, obj: JsonObject) -> Iterator[Cause]:
        duration = dig(obj, "spec", "leaseDurationSeconds")
        if duration is not None and duration <= 0:
            yield Cause("spec.leaseDurationSeconds", f"Invalid value: {duration}: must be greater than 0")


class EventStrategy(Strategy):
    """Events: in their object's namespace, in ``default`` for objects without one."""

    def check(self, obj: JsonObject) -> Iterator[Cause]:
        about = dig(obj, "involvedObject", "namespace", default="")
        if (about or "default") != metadata(obj)["namespace"]:
            why = f'Invalid value: "{about}": does not match event.namespace'
            yield Cause("involvedObject.namespace", why)


def _section(obj: JsonObject, name: str) -> JsonObject:
    section = obj.setdefault(name, {})
    if not isinstance(section, dict):
        raise bad_request(f"json: cannot unmarshal {section!r:.64} into Go struct field .{name}: must be an object")
    return section


def _number(obj: JsonObject) -> int:
    """A number that follows from the name, of 16 bits."""
    name = f"{metadata(obj).get('namespace')}/{metadata(obj).get('name')}"
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:2], "big")


_SETS: JsonObject = {"replicas": 1}
_STRATEGIES: dict[str, Strategy] = {
    "pods": PodStrategy(),
    "nodes": NodeStrategy(),
    "namespaces": NamespaceStrategy(),
    "services": ServiceStrategy(),
    "secrets": SecretStrategy(),
    "events": EventStrategy(),
    "leases.coordination.k8s.io": LeaseStrategy(),
    "deployments.apps": WorkloadStrategy(_SETS),
    "replicasets.apps": WorkloadStrategy(_SETS),
    "statefulsets.apps": WorkloadStrategy(_SETS),
    "daemonsets.apps": WorkloadStrategy({"updateStrategy": {"type": "RollingUpdate"}}),
}
_GENERIC = Strategy()


def strategy_of(resource: Resource) -> Strategy:
    """Return the hooks of a kind."""
    return _STRATEGIES.get(resource.qualified, _GENERIC)
