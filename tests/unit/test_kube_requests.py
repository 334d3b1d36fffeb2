"""The request of each method of the client as its transport gets it, and the errors that it makes of odd answers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from gcushare.core.errors import RemoteContractError
from gcushare.core.nodes import PodRef
from gcushare.kube.client import KubeClient, object_decoder
from gcushare.kube.connection.config import KubeConfig
from gcushare.kube.connection.transport import Request
from gcushare.kube.election import ApiLease
from gcushare.kube.errors import describe
from gcushare.kube.patches import Patch, PatchKind
from gcushare.kube.resources import NODES, PODS, Selector
from gcushare.wire.objects import Event, Lease, LeaseSpec, ObjectMeta, ObjectReference, Pod

POD = PodRef("uid-1", "ns", "train")
MERGE = "application/merge-patch+json"


@dataclass
class Recording:
    """A transport that records requests and answers each with ``body``."""

    body: bytes = b"{}"
    requests: list[Request] = field(default_factory=list)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, request: Request) -> tuple[bytes, str]:
        self.requests.append(request)
        return self.body, "Mon, 23 Nov 2026 20:00:00 GMT"

    async def post(self, request: Request) -> None:
        self.requests.append(request)

    def stream(self, request: Request, stall_s: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        self.requests.append(request)

        async def chunks() -> AsyncIterator[bytes]:
            yield b""

        @asynccontextmanager
        async def opened() -> AsyncIterator[AsyncIterator[bytes]]:
            assert stall_s == 75.0
            yield chunks()

        return opened()


def client_of(transport: Recording) -> KubeClient:
    return KubeClient(KubeConfig("http://127.0.0.1:1", "test"), transport=transport)


async def watch_once(client: KubeClient) -> None:
    async with client.watch(PODS, Selector("ns"), resource_version="7", timeout_s=100.4, stall_s=75) as events:
        assert [each async for each in events] == []


EVENT = Event(metadata=ObjectMeta(name="e", namespace="ns"), involved_object=ObjectReference(kind="Pod", name="train"))
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/ns/leases"
CASES: dict[str, tuple[Callable[[KubeClient], Awaitable[object]], tuple[Any, ...]]] = {
    "get": (
        lambda c: c.get(PODS, "train", namespace="ns", timeout_s=2.5),
        ("GET", "/api/v1/namespaces/ns/pods/train", "get", "pods", None, None, 2.5),
    ),
    "raw": (lambda c: c.get_raw("/version", "version"), ("GET", "/version", "get", "version", None, None, None)),
    "create": (
        lambda c: c.create(PODS, {"a": 1}, namespace="ns", timeout_s=3.0),
        ("POST", "/api/v1/namespaces/ns/pods", "create", "pods", {"a": 1}, "application/json", 3.0),
    ),
    "patch": (
        lambda c: c.patch(NODES, "n", Patch(PatchKind.JSON, []), subresource="status", timeout_s=1.0),
        ("PATCH", "/api/v1/nodes/n/status", "patch", "nodes", [], "application/json-patch+json", 1.0),
    ),
    "delete": (
        lambda c: c.delete(PODS, "train", namespace="ns"),
        (
            *("DELETE", "/api/v1/namespaces/ns/pods/train", "delete", "pods"),
            *({"apiVersion": "v1", "kind": "DeleteOptions"}, "application/json", None),
        ),
    ),
    "bind": (
        lambda c: c.bind_pod(POD, "n", {}, resource_version="7", timeout_s=1.5),
        (
            *("POST", "/api/v1/namespaces/ns/pods/train/binding?timeout=1500ms", "bind", "pods"),
            {
                "apiVersion": "v1",
                "kind": "Binding",
                "metadata": {"name": "train", "namespace": "ns", "uid": "uid-1", "resourceVersion": "7"},
                "target": {"apiVersion": "v1", "kind": "Node", "name": "n"},
            },
            *("application/json", 1.5),
        ),
    ),
    "annotations": (
        lambda c: c.patch_pod_annotations(POD, {"a": None}, timeout_s=4.0),
        (
            *("PATCH", "/api/v1/namespaces/ns/pods/train/status", "patch", "pods"),
            *({"metadata": {"uid": "uid-1", "annotations": {"a": None}}}, MERGE, 4.0),
        ),
    ),
    "event": (
        lambda c: c.create_event(EVENT),
        (
            *("POST", "/api/v1/namespaces/ns/events", "create", "events"),
            {"metadata": {"name": "e", "namespace": "ns"}, "involvedObject": {"kind": "Pod", "name": "train"}},
            *("application/json", None),
        ),
    ),
    "event again": (
        lambda c: c.repeat_event("e", "ns", count=2, message="m", last_timestamp="t"),
        (
            *("PATCH", "/api/v1/namespaces/ns/events/e", "patch", "events"),
            *({"count": 2, "message": "m", "lastTimestamp": "t"}, MERGE, None),
        ),
    ),
    "lease": (
        lambda c: ApiLease(c, "ns", "l").read(5.0),
        ("GET", f"{LEASE_PATH}/l", "get", "leases", None, None, 5.0),
    ),
    "new lease": (
        lambda c: ApiLease(c, "ns", "l").create(Lease(metadata=ObjectMeta(name="l")), 5.0),
        ("POST", LEASE_PATH, "create", "leases", {"metadata": {"name": "l"}}, "application/json", 5.0),
    ),
    "renewal": (
        lambda c: ApiLease(c, "ns", "l").write(LeaseSpec(holder_identity="me"), "7", 5.0),
        (
            *("PATCH", f"{LEASE_PATH}/l", "patch", "leases"),
            *({"metadata": {"resourceVersion": "7"}, "spec": {"holderIdentity": "me"}}, MERGE, 5.0),
        ),
    ),
    "watch": (
        watch_once,
        (
            "GET",
            "/api/v1/namespaces/ns/pods?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=100",
            *("watch", "pods", None, None, None),
        ),
    ),
    "list": (
        lambda c: c.list_all(PODS, Selector(labels="a=b")),
        ("GET", "/api/v1/pods?labelSelector=a%3Db&limit=500", "list", "pods", None, None, 60.0),
    ),
}


@pytest.mark.parametrize("case", CASES)
async def test_each_method_sends_one_request(case: str) -> None:
    method, expected = CASES[case]
    transport = Recording()
    await method(client_of(transport))
    [sent] = transport.requests
    body = None if sent.body is None else json.loads(sent.body)
    assert (sent.method, sent.path, sent.verb, sent.resource, body, sent.content_type, sent.timeout_s) == expected


async def test_an_answer_of_another_kind_names_the_request_and_the_kind() -> None:
    client = client_of(Recording(b"[]"))
    with pytest.raises(RemoteContractError, match=r"^GET /version was answered with no dict: "):
        await client.version()
    with pytest.raises(RemoteContractError, match=r"^GET /api/v1/pods was answered with no list: "):
        await client.list_all(PODS)
    with pytest.raises(RemoteContractError, match=r"a Pod"):
        object_decoder(Pod).read(b"[]")


@pytest.mark.parametrize(
    ("failure", "expected"),
    [
        (TimeoutError(), "no answer in time"),
        (TimeoutError("late"), "TimeoutError: late"),
        (ValueError(), "ValueError"),
        (ValueError("a\n b"), "ValueError: a b"),
    ],
)
def test_a_librarys_exception_is_described_in_one_line(failure: Exception, expected: str) -> None:
    assert describe(failure) == expected
