"""Random streams of a cluster's nodes, pods and claims, as watches bring them: with relists, losses and stale states.

A stream is drawn from an API server of dictionaries: objects come, change, end and come again under the same name with
another uid; an event may be lost until the next list of its kind, and an old state of a pod may come again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import msgspec
from hypothesis import strategies as st

from gcushare.core.cards import SERVES_CLAIMS, SERVES_MEMORY, SERVES_WHOLE
from gcushare.vendors import ENFLAME, Vendor
from gcushare.wire.dra.claims import ResourceClaim
from gcushare.wire.objects import Node, Pod
from tests.extender_objects import Document, node_document, pod_document

NODES = ("n-0", "n-1", "n-2")
PODS = ("a", "b", "c", "d")
CLAIMS = ("x", "y")
MODES = ((SERVES_MEMORY,), (SERVES_MEMORY, SERVES_WHOLE), (SERVES_CLAIMS,))
Step: TypeAlias = tuple[str, str, int, int]
"""What happens, to which object, and two numbers that choose between variants."""

_CHOICE = st.integers(0, 11)
_STEPS = st.one_of(
    st.tuples(st.sampled_from(("node", "node gone")), st.sampled_from(NODES), _CHOICE, _CHOICE),
    st.tuples(
        st.sampled_from(("pod", "bind", "record", "end", "delete", "pod gone", "old pod")),
        st.sampled_from(PODS),
        _CHOICE,
        _CHOICE,
    ),
    st.tuples(st.sampled_from(("claim", "allocate", "free", "claim gone")), st.sampled_from(CLAIMS), _CHOICE, _CHOICE),
    st.tuples(st.sampled_from(("lose", "relist")), st.sampled_from(("nodes", "pods", "claims")), _CHOICE, _CHOICE),
)
STREAMS = st.lists(_STEPS, max_size=60)


@dataclass(frozen=True)
class Event:
    """One call of a handler: ``uids`` are set for the end of a list, else ``obj``."""

    kind: str
    obj: Node | Pod | ResourceClaim | None = None
    is_gone: bool = False
    uids: frozenset[str] = frozenset()


@dataclass
class Server:
    """The objects that exist by kind and name, and the events that its watches bring."""

    vendor: Vendor = ENFLAME
    nodes: dict[str, Document] = field(default_factory=dict)
    pods: dict[str, Document] = field(default_factory=dict)
    claims: dict[str, Document] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    _lost: set[str] = field(default_factory=set)
    _history: list[Pod] = field(default_factory=list)
    _made: int = 0

    def run(self, stream: Sequence[Step]) -> list[Event]:
        """Play a stream; every kind is listed at its end."""
        for what, name, one, two in stream:
            getattr(self, f"_{what.replace(' ', '_')}")(name, one, two)
        for kind in ("nodes", "pods", "claims"):
            self._relist(kind, 0, 0)
        return self.events

    def objects(self, kind: str) -> list[Any]:
        """The objects of a kind that exist now."""
        return [_read(kind, each) for each in getattr(self, kind).values()]

    def _put(self, kind: str, name: str, document: Document) -> None:
        self._made += 1
        document["metadata"]["resourceVersion"] = str(self._made)
        getattr(self, kind)[name] = document
        if kind == "pods":
            self._history.append(_read(kind, document))
        if kind not in self._lost:
            self.events.append(Event(kind, _read(kind, document)))

    def _drop(self, kind: str, name: str) -> None:
        document = getattr(self, kind).pop(name, None)
        if document is not None and kind not in self._lost:
            self.events.append(Event(kind, _read(kind, document), is_gone=True))

    def _new_uid(self, kind: str, name: str, *, is_other: bool) -> str:
        known = getattr(self, kind).get(name)
        if known is not None and not is_other:
            return str(known["metadata"]["uid"])
        self._drop(kind, name)
        self._made += 1
        return f"uid-{name}-{self._made}"

    # Watches

    def _lose(self, kind: str, _one: int, _two: int) -> None:
        self._lost.add(kind)

    def _relist(self, kind: str, _one: int, _two: int) -> None:
        self._lost.discard(kind)
        found = self.objects(kind)
        self.events.extend(Event(kind, each) for each in found)
        self.events.append(Event(kind, uids=frozenset(each.metadata.uid for each in found)))

    def _old_pod(self, name: str, one: int, _two: int) -> None:
        """An earlier state of a pod that still exists and that the watch has shown since."""
        uid = self.pods.get(name, {}).get("metadata", {}).get("uid")
        states = [each for each in self._history if each.metadata.uid == uid]
        if states and "pods" not in self._lost:
            self.events.append(Event("pods", states[one % len(states)]))
            self.events.append(Event("pods", states[-1]))

    # Nodes

    def _node(self, name: str, one: int, two: int) -> None:
        annotations: dict[str, str] = {}
        if two == 0:
            annotations[self.vendor.inventory_annotation] = "{"
        if two == 1:
            annotations[self.vendor.cordon_annotation] = "0"
        uid = self._new_uid("nodes", name, is_other=two == 2)
        document = node_document(
            name, *(16,) * (one % 3), vendor=self.vendor, annotations=annotations, modes=MODES[one % len(MODES)]
        )
        document["metadata"]["uid"] = uid
        if two == 3:
            document["status"]["capacity"][self.vendor.memory_resource] = "999"
        if two == 4:
            document["spec"] = {"unschedulable": True}
        if two == 5:
            document["metadata"]["annotations"] = {}
            document["status"]["capacity"] = {"cpu": "64"}
        self._put("nodes", name, document)

    def _node_gone(self, name: str, _one: int, _two: int) -> None:
        self._drop("nodes", name)

    # Pods

    def _pod(self, name: str, one: int, two: int) -> None:
        if name in self.pods and two % 3:
            return
        uid = self._new_uid("pods", name, is_other=True)
        asked: object = (4, 20, None, "many", 0)[one] if one < 5 else 4
        forged = {self.vendor.record.card_index: "0"} if one == 5 else {}
        document = pod_document(
            name, asked, vendor=self.vendor, whole=one == 6 or 2 * (one == 7), uid=uid, annotations=forged
        )
        if one in (8, 9, 10):
            claim = CLAIMS[one % 2]
            document["spec"]["resourceClaims"] = [{"name": "card", "resourceClaimName": claim}]
            document["spec"]["containers"][0]["resources"] = {}
        if one == 11:
            prefix = self.vendor.claims.template_prefix
            entry = {"name": f"gcushare-{prefix}", "resourceClaimTemplateName": f"{prefix}-4"}
            document["spec"]["resourceClaims"] = [entry]
            document["spec"]["containers"][0]["resources"] = {}
        self._put("pods", name, document)

    def _change(self, name: str, change: Document) -> None:
        known = self.pods[name]
        merged = {key: {**known[key], **change.get(key, {})} for key in ("metadata", "spec", "status")}
        self._put("pods", name, {**known, **merged})

    def _bind(self, name: str, one: int, two: int) -> None:
        if name in self.pods and "nodeName" not in self.pods[name]["spec"]:
            self._change(name, {"spec": {"nodeName": NODES[one % len(NODES)]}})
            self._record(name, two, one)

    def _record(self, name: str, one: int, two: int) -> None:
        if name not in self.pods or not self.pods[name]["spec"].get("nodeName"):
            return
        record = self.vendor.record
        texts = ("0", "1", "0", "7", "x", "", "0,1", "-1", "1", "0", "1", "0")
        written = {record.card_index: texts[one], record.assigned: ("true", "false", "no")[two % 3]}
        amounts = {record.pod_units: "4", record.card_units: "16", record.assign_time: "1"}
        annotations = {} if one == 2 else {**written, **(amounts if two != 5 else {})}
        self._change(name, {"metadata": {"annotations": annotations}})

    def _end(self, name: str, one: int, _two: int) -> None:
        if name in self.pods:
            self._change(name, {"status": {"phase": ("Succeeded", "Failed", "Running")[one % 3]}})

    def _delete(self, name: str, _one: int, _two: int) -> None:
        if name in self.pods:
            self._change(name, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})

    def _pod_gone(self, name: str, _one: int, _two: int) -> None:
        self._drop("pods", name)

    # Claims

    def _claim(self, name: str, one: int, two: int) -> None:
        if name in self.claims and two % 4:
            return
        uid = self._new_uid("claims", name, is_other=True)
        names = self.vendor.claims
        exactly = {
            "deviceClassName": (names.memory_class, names.whole_class, "another")[one % 3],
            "count": 1 + one % 2,
            "capacity": {"requests": {"memory": f"{two}Gi"}},
        }
        requests = [{"name": "card", "exactly": exactly}]
        document = {
            "metadata": {"name": name, "namespace": "default", "uid": uid},
            "spec": {"devices": {"requests": requests}},
            "status": {},
        }
        self._put("claims", name, document)

    def _allocate(self, name: str, one: int, two: int) -> None:
        """Give a claim cards, or other ones; it is reserved for the pod that is drawn if that names it."""
        if name not in self.claims:
            return
        device = "card-x" if two == 0 else f"card-{one % 3}"
        result: Document = {
            "request": "card",
            "driver": self.vendor.claims.driver if one != 11 else "another",
            "pool": NODES[two % len(NODES)],
            "device": device,
            "consumedCapacity": {"memory": ("many" if two == 1 else f"{one}Gi")},
        }
        if two == 2:
            result["adminAccess"] = True
        status: Document = {"allocation": {"devices": {"results": [result]}}}
        pod = self.pods.get(PODS[one % len(PODS)])
        named = [] if pod is None else [each.get("resourceClaimName") for each in pod["spec"].get("resourceClaims", ())]
        if pod is not None and name in named:
            status["reservedFor"] = [{"resource": "pods", "name": "a", "uid": pod["metadata"]["uid"]}]
        self._put("claims", name, {**self.claims[name], "status": status})

    def _free(self, name: str, _one: int, _two: int) -> None:
        if name in self.claims:
            self._put("claims", name, {**self.claims[name], "status": {}})

    def _claim_gone(self, name: str, _one: int, _two: int) -> None:
        self._drop("claims", name)


def _read(kind: str, document: Document) -> Any:
    types: dict[str, Any] = {"nodes": Node, "pods": Pod, "claims": ResourceClaim}
    return msgspec.convert(document, types[kind])


def feed(handlers: dict[str, Any], events: list[Event]) -> None:
    """Bring events to handlers by kind."""
    for event in events:
        handler = handlers[event.kind]
        if event.obj is None:
            handler.retained(event.uids, "")
        elif event.is_gone:
            handler.deleted(event.obj)
        else:
            handler.applied(event.obj)
