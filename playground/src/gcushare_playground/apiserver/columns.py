"""The columns people know, per collection; kinds without an entry show their name and age."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gcushare_playground.apiserver import pod_cells
from gcushare_playground.apiserver.durations import age, since
from gcushare_playground.apiserver.objects import JsonObject, condition, dig, labels_of

Cell = Callable[[JsonObject, float], Any]
"""From an object and the present time to what stands in the column."""
_NONE = "<none>"
_ROLE_LABEL = "node-role.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Column:
    """One column; ``wide`` ones appear with ``-o wide`` only."""

    name: str
    cell: Cell
    wide: bool = False
    type: str = "string"

    def definition(self) -> JsonObject:
        """Return the column's definition document."""
        return {
            "name": self.name,
            "type": self.type,
            "format": "name" if self.name == "Name" else "",
            "description": self.name,
            "priority": 1 if self.wide else 0,
        }


def _path(*path: str | int, default: Any = _NONE) -> Cell:
    return lambda obj, now: dig(obj, *path, default=default)


def _count(*path: str) -> Cell:
    return lambda obj, now: dig(obj, *path, default=0)


def _length(field: str) -> Cell:
    return lambda obj, now: len(obj.get(field) or ())


def _plain(function: Callable[[JsonObject], Any]) -> Cell:
    return lambda obj, now: function(obj)


def _selector_text(selector: JsonObject | None) -> str:
    if not selector:
        return _NONE
    exact = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    sets = [
        f"{e['key']} {e['operator'].lower()} ({','.join(e.get('values') or [])})"
        for e in selector.get("matchExpressions") or []
    ]
    return ",".join([*exact, *sets]) or _NONE


def _pairs(mapping: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((mapping or {}).items())) or _NONE


def _template_names(field: str) -> Cell:
    def cell(obj: JsonObject, now: float) -> str:
        return ",".join(c.get(field, "") for c in dig(obj, "spec", "template", "spec", "containers", default=[]))

    return cell


def _node_status(node: JsonObject) -> str:
    ready = condition(node, "Ready").get("status")
    words = [{"True": "Ready", None: "Unknown"}.get(ready, "NotReady")]
    if dig(node, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _node_roles(node: JsonObject) -> str:
    roles = sorted(name.removeprefix(_ROLE_LABEL) for name in labels_of(node) if name.startswith(_ROLE_LABEL))
    return ",".join(role for role in roles if role) or _NONE


def _node_address(kind: str) -> Cell:
    def cell(node: JsonObject, now: float) -> str:
        found = (a["address"] for a in dig(node, "status", "addresses", default=[]) if a.get("type") == kind)
        return next(found, _NONE)

    return cell


def _node_info(field: str) -> Cell:
    return _path("status", "nodeInfo", field, default="<unknown>")


def _ready_of(ready: str) -> Cell:
    def cell(obj: JsonObject, now: float) -> str:
        return f"{dig(obj, 'status', ready, default=0)}/{dig(obj, 'spec', 'replicas', default=0)}"

    return cell


def _service_ports(service: JsonObject) -> str:
    def text(port: JsonObject) -> str:
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        return f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}"

    return ",".join(map(text, dig(service, "spec", "ports", default=[]))) or _NONE


def _endpoints(endpoints: JsonObject) -> str:
    found = [
        f"{address['ip']}:{port['port']}"
        for subset in endpoints.get("subsets") or []
        for port in subset.get("ports") or []
        for address in subset.get("addresses") or []
    ]
    more = f" + {len(found) - 3} more..." if len(found) > 3 else ""
    return ",".join(found[:3]) + more or _NONE


def _slice_ports(endpoint_slice: JsonObject) -> str:
    return ",".join(str(port.get("port")) for port in endpoint_slice.get("ports") or []) or "<unset>"


def _slice_addresses(endpoint_slice: JsonObject) -> str:
    return ",".join(a for e in endpoint_slice.get("endpoints") or [] for a in e.get("addresses") or []) or "<unset>"


def _event_seen(event: JsonObject, now: float) -> str:
    last = dig(event, "series", "lastObservedTime") or event.get("lastTimestamp") or event.get("eventTime")
    return since(last or dig(event, "metadata", "creationTimestamp"), now)


def _event_first(event: JsonObject, now: float) -> str:
    return since(event.get("firstTimestamp") or event.get("eventTime"), now)


def _event_object(event: JsonObject) -> str:
    involved = event.get("involvedObject") or {}
    return f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"


def _event_source(event: JsonObject) -> str:
    parts = (
        dig(event, "source", "component", default=event.get("reportingComponent", "")),
        dig(event, "source", "host"),
    )
    return ", ".join(part for part in parts if part)


def _event_count(event: JsonObject) -> int:
    return int(dig(event, "series", "count") or event.get("count") or 1)


def _role_of(binding: JsonObject) -> str:
    return f"{dig(binding, 'roleRef', 'kind')}/{dig(binding, 'roleRef', 'name')}"


_NAME = Column("Name", _path("metadata", "name"))
_AGE = Column("Age", age)
_CREATED_AT = Column("Created At", _path("metadata", "creationTimestamp"))
_SELECTOR = Column("Selector", lambda obj, now: _selector_text(dig(obj, "spec", "selector")), wide=True)
_TEMPLATE = (
    Column("Containers", _template_names("name"), wide=True),
    Column("Images", _template_names("image"), wide=True),
)

_COLUMNS: dict[str, tuple[Column, ...]] = {
    "pods": (
        _NAME,
        Column("Ready", _plain(pod_cells.ready)),
        Column("Status", _plain(pod_cells.status)),
        Column("Restarts", pod_cells.restarts),
        _AGE,
        Column("IP", _path("status", "podIP"), wide=True),
        Column("Node", _path("spec", "nodeName"), wide=True),
        Column("Nominated Node", _path("status", "nominatedNodeName"), wide=True),
        Column("Readiness Gates", lambda obj, now: _NONE, wide=True),
    ),
    "nodes": (
        _NAME,
        Column("Status", _plain(_node_status)),
        Column("Roles", _plain(_node_roles)),
        _AGE,
        Column("Version", _path("status", "nodeInfo", "kubeletVersion", default="")),
        Column("Internal-IP", _node_address("InternalIP"), wide=True),
        Column("External-IP", _node_address("ExternalIP"), wide=True),
        Column("OS-Image", _node_info("osImage"), wide=True),
        Column("Kernel-Version", _node_info("kernelVersion"), wide=True),
        Column("Container-Runtime", _node_info("containerRuntimeVersion"), wide=True),
    ),
    "deployments.apps": (
        _NAME,
        Column("Ready", _ready_of("readyReplicas")),
        Column("Up-to-date", _count("status", "updatedReplicas"), type="integer"),
        Column("Available", _count("status", "availableReplicas"), type="integer"),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "replicasets.apps": (
        _NAME,
        Column("Desired", _count("spec", "replicas"), type="integer"),
        Column("Current", _count("status", "replicas"), type="integer"),
        Column("Ready", _count("status", "readyReplicas"), type="integer"),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "daemonsets.apps": (
        _NAME,
        Column("Desired", _count("status", "desiredNumberScheduled"), type="integer"),
        Column("Current", _count("status", "currentNumberScheduled"), type="integer"),
        Column("Ready", _count("status", "numberReady"), type="integer"),
        Column("Up-to-date", _count("status", "updatedNumberScheduled"), type="integer"),
        Column("Available", _count("status", "numberAvailable"), type="integer"),
        Column("Node Selector", lambda obj, now: _pairs(dig(obj, "spec", "template", "spec", "nodeSelector"))),
        _AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    "statefulsets.apps": (_NAME, Column("Ready", _ready_of("readyReplicas")), _AGE, *_TEMPLATE),
    "services": (
        _NAME,
        Column("Type", _path("spec", "type")),
        Column("Cluster-IP", _path("spec", "clusterIP")),
        Column("External-IP", lambda obj, now: _NONE),
        Column("Port(s)", _plain(_service_ports)),
        _AGE,
        Column("Selector", lambda obj, now: _pairs(dig(obj, "spec", "selector")), wide=True),
    ),
    "endpoints": (_NAME, Column("Endpoints", _plain(_endpoints)), _AGE),
    "endpointslices.discovery.k8s.io": (
        _NAME,
        Column("AddressType", _path("addressType")),
        Column("Ports", _plain(_slice_ports)),
        Column("Endpoints", _plain(_slice_addresses)),
        _AGE,
    ),
    "events": (
        Column("Last Seen", _event_seen),
        Column("Type", _path("type", default="")),
        Column("Reason", _path("reason", default="")),
        Column("Object", _plain(_event_object)),
        Column("Subobject", _path("involvedObject", "fieldPath", default=""), wide=True),
        Column("Source", _plain(_event_source), wide=True),
        Column("Message", lambda obj, now: str(obj.get("message", "")).strip()),
        Column("First Seen", _event_first, wide=True),
        Column("Count", _plain(_event_count), wide=True, type="integer"),
        Column("Name", _path("metadata", "name"), wide=True),
    ),
    "leases.coordination.k8s.io": (_NAME, Column("Holder", _path("spec", "holderIdentity", default="")), _AGE),
    "namespaces": (_NAME, Column("Status", _path("status", "phase", default="")), _AGE),
    "configmaps": (_NAME, Column("Data", _length("data"), type="integer"), _AGE),
    "secrets": (
        _NAME,
        Column("Type", _path("type", default="")),
        Column("Data", _length("data"), type="integer"),
        _AGE,
    ),
    "serviceaccounts": (_NAME, Column("Secrets", _length("secrets"), type="integer"), _AGE),
    "clusterroles.rbac.authorization.k8s.io": (_NAME, _CREATED_AT),
    "roles.rbac.authorization.k8s.io": (_NAME, _CREATED_AT),
    "clusterrolebindings.rbac.authorization.k8s.io": (_NAME, Column("Role", _plain(_role_of)), _AGE),
    "rolebindings.rbac.authorization.k8s.io": (_NAME, Column("Role", _plain(_role_of)), _AGE),
    "poddisruptionbudgets.policy": (
        _NAME,
        Column("Min Available", _path("spec", "minAvailable", default="N/A")),
        Column("Max Unavailable", _path("spec", "maxUnavailable", default="N/A")),
        Column("Allowed Disruptions", _count("status", "disruptionsAllowed"), type="integer"),
        _AGE,
    ),
    "priorityclasses.scheduling.k8s.io": (
        _NAME,
        Column("Value", _count("value"), type="integer"),
        Column("Global-Default", _path("globalDefault", default=False), type="boolean"),
        _AGE,
    ),
    "networkpolicies.networking.k8s.io": (
        _NAME,
        Column("Pod-Selector", lambda obj, now: _selector_text(dig(obj, "spec", "podSelector"))),
        _AGE,
    ),
    "validatingadmissionpolicies.admissionregistration.k8s.io": (
        _NAME,
        Column("Validations", lambda obj, now: len(dig(obj, "spec", "validations", default=[])), type="integer"),
        Column("ParamKind", _path("spec", "paramKind", "kind", default="<unset>")),
        _AGE,
    ),
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": (
        _NAME,
        Column("PolicyName", _path("spec", "policyName", default="")),
        Column("ParamRef", _path("spec", "paramRef", "name", default="<unset>")),
        _AGE,
    ),
}
_GENERIC = (_NAME, _AGE)


def columns_of(collection: str) -> tuple[Column, ...]:
    """Return the columns of a collection."""
    return _COLUMNS.get(collection, _GENERIC)
