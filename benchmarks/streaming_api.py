"""An API server for benchmarks: thousands of nodes and pods as ready bytes, streamed, so that it costs next to nothing.

It knows list with pages, watch, Binding, leases and events, and none of the rules of a real one: the playground's API
server has those. Run it as a process: it prints its port and serves until it is killed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from dataclasses import dataclass, field

import uvloop
from aiohttp import web

UNITS_PER_CARD = 32
PADDING = "x" * 1200
"""Brings a pod's JSON to some 2.5 KB, about what real ones have with their managed fields."""


@dataclass(frozen=True, slots=True)
class Size:
    """How large the cluster is: pods are bound, ``waiting`` are not."""

    nodes: int
    cards: int
    pods: int
    waiting: int


def node_name(number: int) -> str:
    """The name of a node."""
    return f"gcu-node-{number:05d}.cluster.local"


def make_node(number: int, cards: int) -> bytes:
    """One Node with its inventory annotation."""
    inventory = {
        "version": 1,
        "unit": "1",
        "cards": [
            {
                "index": index,
                "uuid": f"GCU-{number:05d}-{index}-0123456789abcdef",
                "memory": UNITS_PER_CARD << 30,
                "units": UNITS_PER_CARD,
                "model": "S60",
            }
            for index in range(cards)
        ],
    }
    capacity = {"enflame.com/gcu-memory": str(cards * UNITS_PER_CARD), "enflame.com/gcu-count": str(cards)}
    document = {
        "metadata": {
            "name": node_name(number),
            "uid": f"node-uid-{number:06d}",
            "resourceVersion": str(number + 1),
            "labels": {"enflame.com/gcushare": "true"},
            "annotations": {"gcushare.io/enflame-inventory": json.dumps(inventory)},
        },
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True"}],
            "images": [{"names": [PADDING], "sizeBytes": 1}],
        },
    }
    return json.dumps(document, separators=(",", ":")).encode()


def make_pod(number: int, size: Size, version: int) -> dict[str, object]:
    """One Pod: the first ``size.pods`` are bound and hold a share of a card, the others wait."""
    annotations: dict[str, str] = {"kubernetes.io/psp": "restricted"}
    units = (1, 2, 4)[number % 3]
    spec: dict[str, object] = {
        "schedulerName": "default-scheduler",
        "containers": [
            {
                "name": "main",
                "image": "registry.local/training:1",
                "resources": {
                    "limits": {"enflame.com/gcu-memory": str(units), "cpu": "1"},
                    "requests": {"enflame.com/gcu-memory": str(units), "cpu": "1"},
                },
                "env": [{"name": "PADDING", "value": PADDING}],
            }
        ],
    }
    if number < size.pods:
        cards = size.nodes * size.cards
        place = number % cards
        spec["nodeName"] = node_name(place % size.nodes)
        annotations |= record_annotations(place // size.nodes, units, 1_700_000_000_000_000_000 + number)
    return {
        "metadata": {
            "name": f"training-{number:06d}-7d9c5b8f4-abcde",
            "namespace": f"team-{number % 20}",
            "uid": f"{number:08d}-6ec7-40be-a0e6-bf144efb0098",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations,
            "labels": {"app": "training", "pod-template-hash": "7d9c5b8f4"},
        },
        "spec": spec,
        "status": {"phase": "Running" if number < size.pods else "Pending"},
    }


def record_annotations(card: int, units: int, when_ns: int) -> dict[str, str]:
    """The record of a pod, as the extender writes it."""
    return {
        "enflame.com/gcu-device-id": str(card),
        "enflame.com/gcu-device-memory": str(UNITS_PER_CARD),
        "enflame.com/gcu-device-memory-request": str(units),
        "enflame.com/gcu-device-assigned": "true",
        "enflame.com/gcu-device-assign-time": str(when_ns),
    }


def churned_pod(number: int, version: int) -> dict[str, object]:
    """A waiting pod that exists for a moment, with a name, a label and a shape that none before it had."""
    selection = [index for index in range(8) if (number // UNITS_PER_CARD) >> index & 1] or [0]
    amounts = {"enflame.com/gcu-memory": str(1 + number % UNITS_PER_CARD), "cpu": f"{1 + number}m"}
    annotations = {"gcushare.io/use-cards": ",".join(map(str, selection)), "gcushare.io/node-policy": "expected-fill"}
    return {
        "metadata": {
            "name": f"churned-{number}",
            "namespace": f"team-{number}",
            "uid": f"churned-{number}-6ec7-40be",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "annotations": annotations,
            "labels": {f"label-{number}": "x"},
        },
        "spec": {"containers": [{"name": "main", "resources": {"limits": amounts, "requests": amounts}}]},
        "status": {"phase": "Pending"},
    }


@dataclass(slots=True)
class Cluster:
    """What the server knows. Nodes and pods are made once, before it listens."""

    size: Size
    nodes: list[bytes]
    pods: list[bytes]
    version: int = 1_000_000
    bindings: int = 0
    watchers: set[asyncio.Queue[bytes]] = field(default_factory=set)
    lease: dict[str, object] | None = None
    churned: int = 0
    churning: int = 0

    def bind(self, name: str, binding: dict[str, object]) -> None:
        """Bind a pod and tell the watchers."""
        self.version += 1
        self.bindings += 1
        number = int(name.split("-")[1])
        pod = make_pod(number, self.size, self.version)
        metadata, given = pod["metadata"], binding["metadata"]
        spec, target = pod["spec"], binding["target"]
        assert isinstance(metadata, dict)
        assert isinstance(given, dict)
        assert isinstance(spec, dict)
        assert isinstance(target, dict)
        metadata["annotations"] = {**metadata["annotations"], **given.get("annotations", {})}
        spec["nodeName"] = target["name"]
        self.pods[number] = encode(pod)
        self._tell(b'{"type":"MODIFIED","object":%b}\n' % self.pods[number])

    def churn(self, count: int) -> None:
        """Delete the pods of the last call and create other waiting ones, each with a shape of its own."""
        self.version += 1
        for number in range(self.churned, self.churned + self.churning):
            self._tell(b'{"type":"DELETED","object":%b}\n' % encode(churned_pod(number, self.version)))
        self.churned, self.churning = self.churned + self.churning, count
        for number in range(self.churned, self.churned + count):
            self._tell(b'{"type":"ADDED","object":%b}\n' % encode(churned_pod(number, self.version)))

    def bookmark(self) -> bytes:
        """Where the collections stand."""
        return b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"%d"}}}\n' % self.version

    def _tell(self, line: bytes) -> None:
        for queue in self.watchers:
            queue.put_nowait(line)


def encode(document: object) -> bytes:
    """Compact JSON, as the API server writes it."""
    return json.dumps(document, separators=(",", ":")).encode()


class Api:
    """The handlers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def application(self) -> web.Application:
        """The routes."""
        app = web.Application()
        leases = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        app.add_routes(
            [
                web.get("/api/v1/nodes", self.nodes),
                web.get("/api/v1/pods", self.pods),
                web.post("/api/v1/namespaces/{namespace}/pods/{name}/binding", self.bind),
                web.post("/api/v1/namespaces/{namespace}/events", self.event),
                web.get(leases + "/{name}", self.read_lease),
                web.post(leases, self.write_lease),
                web.patch(leases + "/{name}", self.write_lease),
                web.get("/bindings", self.count),
                web.post("/churn", self.churn),
            ]
        )
        return app

    async def nodes(self, request: web.Request) -> web.StreamResponse:
        """List or watch nodes; a watch of nodes stays silent."""
        if request.query.get("watch"):
            return await self._watch(request, asyncio.Queue())
        return self._page(request, self._cluster.nodes)

    async def pods(self, request: web.Request) -> web.StreamResponse:
        """List or watch pods."""
        cluster = self._cluster
        if not request.query.get("watch"):
            return self._page(request, cluster.pods)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        cluster.watchers.add(queue)
        try:
            return await self._watch(request, queue)
        finally:
            cluster.watchers.discard(queue)

    def _page(self, request: web.Request, everything: list[bytes]) -> web.Response:
        start = int(request.query.get("continue", "0"))
        end = start + int(request.query.get("limit", len(everything)))
        head = {"resourceVersion": str(self._cluster.version), "continue": str(end) if end < len(everything) else ""}
        items = b",".join(everything[start:end])
        body = b'{"kind":"List","apiVersion":"v1","metadata":%b,"items":[%b]}' % (encode(head), items)
        return web.Response(body=body, content_type="application/json")

    async def _watch(self, request: web.Request, queue: asyncio.Queue[bytes]) -> web.StreamResponse:
        """Stream until the time asked for is over, with a bookmark two seconds before, as kube-apiserver does."""
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        timeout_s = float(request.query.get("timeoutSeconds", "300"))
        loop = asyncio.get_running_loop()
        loop.call_later(max(0.0, timeout_s - 2), lambda: queue.put_nowait(self._cluster.bookmark()))
        with contextlib.suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(timeout_s):
                while True:
                    await response.write(await queue.get())
        return response

    async def bind(self, request: web.Request) -> web.Response:
        """Bind a pod."""
        self._cluster.bind(request.match_info["name"], json.loads(await request.read()))
        return web.Response(body=b'{"kind":"Status","status":"Success","code":201}', status=201)

    async def event(self, request: web.Request) -> web.Response:
        """Take an event and forget it."""
        return web.Response(body=await request.read(), content_type="application/json", status=201)

    async def read_lease(self, request: web.Request) -> web.Response:
        """Read the one lease."""
        if self._cluster.lease is None:
            status = {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
            return web.json_response(status, status=404)
        return web.json_response(self._cluster.lease)

    async def write_lease(self, request: web.Request) -> web.Response:
        """Create or patch the one lease."""
        lease = {**(self._cluster.lease or {}), **json.loads(await request.read())}
        self._cluster.version += 1
        lease["metadata"] = {"name": "lease", "namespace": "default", "resourceVersion": str(self._cluster.version)}
        self._cluster.lease = lease
        return web.json_response(lease, status=201)

    async def churn(self, request: web.Request) -> web.Response:
        """Replace so many waiting pods; answers the number of the first of them."""
        self._cluster.churn(int(request.query["pods"]))
        return web.Response(text=str(self._cluster.churned))

    async def count(self, request: web.Request) -> web.Response:
        """How many bindings there were."""
        return web.Response(text=str(self._cluster.bindings))


async def serve(size: Size) -> None:
    """Serve until killed."""
    nodes = [make_node(number, size.cards) for number in range(size.nodes)]
    pods = [encode(make_pod(number, size, number + 1)) for number in range(size.pods + size.waiting)]
    runner = web.AppRunner(Api(Cluster(size, nodes, pods)).application(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    sys.stdout.write(f"{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.Event().wait()


def main() -> None:
    """Read the size and serve."""
    parser = argparse.ArgumentParser()
    for name in ("nodes", "cards", "pods", "waiting"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args()
    uvloop.run(serve(Size(given.nodes, given.cards, given.pods, given.waiting)))


if __name__ == "__main__":
    main()
