"""A conversation with an API server, to compare the answers of two servers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import aiohttp

JsonObject: TypeAlias = dict[str, Any]

_NODES, _PODS = "/api/v1/nodes", "/api/v1/namespaces/default/pods"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
_EVENTS = "/api/v1/namespaces/default/events"
_JSON, _MERGE = "application/json", "application/merge-patch+json"
_JSON_PATCH, _STRATEGIC = "application/json-patch+json", "application/strategic-merge-patch+json"

_CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|\d{4}-\d\d-\d\dT[0-9:.]+Z")
"""Uids and times, which no two servers share."""
_COMPARED_METADATA = ("name", "namespace", "annotations", "labels", "deletionTimestamp", "deletionGracePeriodSeconds")


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request; ``{uid}`` in its body or path stands for the uid of the pod made first."""

    words: str
    method: str
    path: str
    body: object = None
    kind: str = _JSON


@dataclass(frozen=True, slots=True)
class Answer:
    """What of an answer must be the same: its code, a failure's reason and fields, an object's own words.

    Texts are shown and not compared: clients must not read them, and they change from release to release.
    """

    code: int
    reason: str = ""
    fields: tuple[tuple[str, str], ...] = ()
    object: str = ""
    message: str = field(default="", compare=False)


def pod(name: str, namespace: str = "default", **spec: object) -> JsonObject:
    """Write a pod of one container."""
    container = {"name": "main", "image": "example.invalid/image:1"}
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"containers": [container], **spec}}


def _binding(name: str, uid: str | None, node: str = "node-1", *, version: str = "", **annotations: str) -> JsonObject:
    metadata: JsonObject = {"name": name, "namespace": "default", "annotations": annotations}
    if version:
        metadata["resourceVersion"] = version
    if uid is not None:
        metadata["uid"] = uid
    return {"metadata": metadata, "target": {"kind": "Node", "name": node}}


def _limits(amount: object, key: str = "limits") -> JsonObject:
    container = {"name": "main", "image": "i", "resources": {key: {"enflame.com/gcu-memory": amount}}}
    return {"metadata": {"name": "bad", "namespace": "default"}, "spec": {"containers": [container]}}


def _lease(name: str, version: str = "", **spec: object) -> JsonObject:
    return {"metadata": {"name": name} | ({"resourceVersion": version} if version else {}), "spec": spec}


def _status(**status: object) -> JsonObject:
    return {"status": status}


def _labels(**labels: str) -> JsonObject:
    return {"metadata": {"labels": labels}}


def _event(namespace: str, **about: str) -> JsonObject:
    return {"metadata": {"name": "e", "namespace": namespace}, "involvedObject": about}


def _change(operation: str, path: str, value: str | None = None) -> list[JsonObject]:
    return [{"op": operation, "path": path} | ({} if value is None else {"value": value})]


_OTHER = "00000000-0000-4000-8000-000000000000"
_STATUS = f"{_NODES}/node-1/status"
_COUNT = "/status/capacity/enflame.com~1gcu-count"
_SYSTEM_EVENTS = "/api/v1/namespaces/kube-system/events"

CONVERSATION: tuple[Exchange, ...] = (
    Exchange("make a node", "POST", _NODES, {"metadata": {"name": "node-1"}}),
    Exchange("make it again", "POST", _NODES, {"metadata": {"name": "node-1"}}),
    Exchange("make a pod", "POST", _PODS, pod("train")),
    Exchange("make it again", "POST", _PODS, pod("train")),
    Exchange("a name that is none", "POST", _PODS, pod("Bad_Name")),
    Exchange("no containers", "POST", _PODS, {"metadata": {"name": "bad"}, "spec": {"containers": []}}),
    Exchange("a fraction of a unit", "POST", _PODS, _limits("1.5")),
    Exchange("a fraction as a number", "POST", _PODS, _limits(0.5)),
    Exchange("a negative amount", "POST", _PODS, _limits("-1")),
    Exchange("an amount that is no quantity", "POST", _PODS, _limits("many")),
    Exchange("a request without its limit", "POST", _PODS, _limits("4", "requests")),
    Exchange("a huge amount", "POST", _PODS, _limits("9223372036854775808")),
    Exchange("not JSON", "POST", _PODS, b"{"),
    Exchange("a pod of another kind", "POST", _PODS, {"kind": "Node", "metadata": {"name": "x"}}),
    Exchange("bind another uid", "POST", f"{_PODS}/train/binding", _binding("train", _OTHER)),
    Exchange("bind an old version", "POST", f"{_PODS}/train/binding", _binding("train", "{uid}", version="1")),
    Exchange("bind no version", "POST", f"{_PODS}/train/binding", _binding("train", None, version="first")),
    Exchange("bind to no node", "POST", f"{_PODS}/train/binding", _binding("train", None, "")),
    Exchange("bind a pod that is not there", "POST", f"{_PODS}/stranger/binding", _binding("stranger", None)),
    Exchange("bind under another name", "POST", f"{_PODS}/train/binding", _binding("other", None)),
    Exchange("bind", "POST", f"{_PODS}/train/binding", _binding("train", "{uid}", mark="1")),
    Exchange("bind once more", "POST", f"{_PODS}/train/binding", _binding("train", "{uid}", mark="2")),
    Exchange("bind elsewhere", "POST", f"{_PODS}/train/binding", _binding("train", "{uid}", "node-2")),
    Exchange("read it", "GET", f"{_PODS}/train"),
    Exchange("patch another uid", "PATCH", f"{_PODS}/train", {"metadata": {"uid": _OTHER}}, _MERGE),
    Exchange("patch an old version", "PATCH", f"{_PODS}/train", {"metadata": {"resourceVersion": "1"}}, _MERGE),
    Exchange("patch both", "PATCH", f"{_PODS}/train", {"metadata": {"uid": _OTHER, "resourceVersion": "1"}}, _MERGE),
    Exchange("patch its own uid", "PATCH", f"{_PODS}/train", {"metadata": {"uid": "{uid}"}}, _MERGE),
    Exchange("annotate", "PATCH", f"{_PODS}/train", {"metadata": {"annotations": {"a": "1", "mark": None}}}, _MERGE),
    Exchange("annotate with a number", "PATCH", f"{_PODS}/train", {"metadata": {"annotations": {"a": 1}}}, _MERGE),
    Exchange("annotate with a bad key", "PATCH", f"{_PODS}/train", {"metadata": {"annotations": {"a b": "1"}}}, _MERGE),
    Exchange("change its node", "PATCH", f"{_PODS}/train", {"spec": {"nodeName": "node-2"}}, _MERGE),
    Exchange("patch no one", "PATCH", f"{_PODS}/stranger", {"metadata": {"annotations": {"a": "1"}}}, _MERGE),
    Exchange("patch of no kind", "PATCH", f"{_PODS}/train", {}, "application/json"),
    Exchange("delete another uid", "DELETE", f"{_PODS}/train", {"preconditions": {"uid": _OTHER}}),
    Exchange("delete an old version", "DELETE", f"{_PODS}/train", {"preconditions": {"resourceVersion": "1"}}),
    Exchange("a capacity that is new", "PATCH", _STATUS, _status(capacity={"cpu": "4"}), _MERGE),
    Exchange("a capacity by JSON patch", "PATCH", _STATUS, _change("add", _COUNT, "8"), _JSON_PATCH),
    Exchange("take it away", "PATCH", _STATUS, _change("remove", _COUNT), _JSON_PATCH),
    Exchange("take it away again", "PATCH", _STATUS, _change("remove", _COUNT), _JSON_PATCH),
    Exchange("a test that fails", "PATCH", f"{_NODES}/node-1", _change("test", "/metadata/name", "x"), _JSON_PATCH),
    Exchange("remove what is not there", "PATCH", _STATUS, _status(capacity={"x.com/y": None}), _MERGE),
    Exchange("a capacity at the node itself", "PATCH", f"{_NODES}/node-1", _status(capacity={"x.com/y": "1"}), _MERGE),
    Exchange("a fraction as capacity", "PATCH", _STATUS, _status(capacity={"x.com/y": "1.5"}), _MERGE),
    Exchange("a negative capacity", "PATCH", _STATUS, _status(capacity={"x.com/y": "-1"}), _MERGE),
    Exchange("labels", "PATCH", f"{_NODES}/node-1", _labels(gcushare="true"), _STRATEGIC),
    Exchange("a label that is none", "PATCH", f"{_NODES}/node-1", _labels(a="b c"), _MERGE),
    Exchange("a lease", "POST", _LEASES, _lease("lease", holderIdentity="a", leaseDurationSeconds=10)),
    Exchange("the lease again", "POST", _LEASES, _lease("lease", holderIdentity="a", leaseDurationSeconds=10)),
    Exchange("a lease of no duration", "POST", _LEASES, _lease("l2", leaseDurationSeconds=0)),
    Exchange("an old lease", "PUT", f"{_LEASES}/lease", _lease("lease", "1")),
    Exchange("an event about nothing here", "POST", _SYSTEM_EVENTS, _event("kube-system", kind="Node", name="x")),
    Exchange("an event elsewhere", "POST", _EVENTS, _event("default") | {"involvedObject": {"namespace": "other"}}),
    Exchange("an event about a node", "POST", _EVENTS, _event("default", kind="Node", name="x")),
    Exchange("no such field selector", "GET", f"{_PODS}?fieldSelector=spec.colour%3Dred"),
    Exchange("no label selector", "GET", f"{_PODS}?labelSelector=a%20b%20c"),
    Exchange("no such continue token", "GET", f"{_PODS}?limit=1&continue=nothing"),
    Exchange("no such resource", "GET", "/api/v1/namespaces/default/gadgets"),
    Exchange("no such group", "GET", "/apis/gadgets.example.com/v1/gadgets"),
    Exchange("no such namespace", "POST", "/api/v1/namespaces/nowhere/pods", pod("p", namespace="nowhere")),
    Exchange("another namespace's pod", "POST", "/api/v1/namespaces/kube-system/pods", pod("p")),
    Exchange("delete", "DELETE", f"{_PODS}/train", {"gracePeriodSeconds": 0}),
    Exchange("delete again", "DELETE", f"{_PODS}/train", {"gracePeriodSeconds": 0}),
    Exchange("a pod with its node", "POST", _PODS, pod("placed", nodeName="node-1")),
    Exchange("bind what has its node", "POST", f"{_PODS}/placed/binding", _binding("placed", None)),
    Exchange("start to delete it", "DELETE", f"{_PODS}/placed", {"gracePeriodSeconds": 30}),
    Exchange("annotate while it ends", "PATCH", f"{_PODS}/placed", {"metadata": {"annotations": {"a": "1"}}}, _MERGE),
    Exchange("end it", "DELETE", f"{_PODS}/placed", {"gracePeriodSeconds": 0}),
    Exchange("an unplaced pod", "POST", _PODS, pod("waiting")),
    Exchange("is deleted at once", "DELETE", f"{_PODS}/waiting", {}),
    Exchange("and gone", "GET", f"{_PODS}/waiting"),
)  # fmt: skip


async def hold(session: aiohttp.ClientSession, url: str) -> list[tuple[str, Answer]]:
    """Send every request in order and return what was answered."""
    uid, answers = "", []
    for exchange in CONVERSATION:
        body = exchange.body
        if isinstance(body, bytes):
            data = body
        else:
            data = b"" if body is None else json.dumps(body).replace("{uid}", uid).encode()
        headers = {"Content-Type": exchange.kind, "Accept": "application/json"}
        async with session.request(exchange.method, url + exchange.path, data=data, headers=headers) as response:
            text = await response.text()
            document: JsonObject = json.loads(text) if text.startswith("{") else {"message": text}
        if exchange.words == "make a pod":
            uid = document["metadata"]["uid"]
        answers.append((exchange.words, _answer(response.status, document)))
    return answers


def _answer(code: int, document: JsonObject) -> Answer:
    if code >= 400:
        causes = document.get("details", {}).get("causes") or []
        return Answer(
            code,
            str(document.get("reason", "")),
            tuple(sorted({(cause.get("reason", ""), cause.get("field", "")) for cause in causes})),
            message=_CHANGING.sub("~", str(document.get("message", ""))),
        )
    if document.get("kind", "").endswith("List"):
        return Answer(code, object=f"{document['kind']} of {len(document['items'])}")
    if document.get("kind") == "Status":
        return Answer(code, object=str(document["status"]))
    metadata = {key: document.get("metadata", {}).get(key) for key in _COMPARED_METADATA}
    resources = [each.get("resources") for each in document.get("spec", {}).get("containers", [])]
    shown = {
        **metadata,
        "kind": document.get("kind"),
        "node": document.get("spec", {}).get("nodeName"),
        "resources": resources,
        "lease": document.get("spec", {}).get("holderIdentity"),
        "phase": document.get("status", {}).get("phase"),
        "conditions": [(each["type"], each["status"]) for each in document.get("status", {}).get("conditions", [])],
        "capacity": document.get("status", {}).get("capacity"),
        "allocatable": document.get("status", {}).get("allocatable"),
    }
    return Answer(code, object=_CHANGING.sub("~", repr({key: value for key, value in shown.items() if value})))
