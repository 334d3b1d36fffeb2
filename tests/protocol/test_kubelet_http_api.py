"""The kubelet double over HTTP: the requests it sends, and what it makes of an API server's answers."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gcushare.core.errors import ConflictError, ForbiddenError, GcushareError, NotFoundError, RetryableError
from gcushare_playground.kubelet import HttpNodeApi, Kubelet, KubeletSettings, MemoryNodeApi
from gcushare_playground.kubelet.api import GoneError
from tests.protocol.kubelet_rig import NODE, container, pod

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(handler: Handler) -> AsyncIterator[str]:
    """Serve one handler for every path on a free port and yield the base URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def over_http(memory: MemoryNodeApi, requests: list[tuple[str, str, str]]) -> Handler:
    """Serve the API in memory as an API server would, and note method, path and content type."""

    async def handle(request: web.Request) -> web.StreamResponse:
        requests.append((request.method, request.path, request.content_type))
        try:
            if request.query.get("watch"):
                return await _stream(memory, request)
            return web.json_response(await _answer(memory, request))
        except GcushareError as error:
            code = {NotFoundError: 404, ConflictError: 409}.get(type(error), 503)
            return web.json_response({"kind": "Status", "code": code, "message": str(error)}, status=code)

    return handle


async def _stream(memory: MemoryNodeApi, request: web.Request) -> web.StreamResponse:
    node = request.query["fieldSelector"].removeprefix("spec.nodeName=")
    response = web.StreamResponse()
    await response.prepare(request)
    async for event in memory.watch_pods(node, request.query["resourceVersion"]):
        await response.write(json.dumps({"type": event.kind, "object": event.pod}).encode() + b"\n")
    return response


async def _answer(memory: MemoryNodeApi, request: web.Request) -> dict[str, Any]:
    body = await request.json() if request.can_read_body else {}
    match request.method, request.path.strip("/").split("/"):
        case "GET", ["api", "v1", "pods"]:
            listed = await memory.list_pods(request.query["fieldSelector"].removeprefix("spec.nodeName="))
            return {"items": list(listed.pods), "metadata": {"resourceVersion": listed.resource_version}}
        case "GET", ["api", "v1", "nodes", name]:
            return await memory.get_node(name)
        case "POST", ["api", "v1", "nodes"]:
            return await memory.create_node(body)
        case "PATCH", ["api", "v1", "nodes", name, "status"]:
            return await memory.patch_node_status(name, body)
        case "PATCH", ["api", "v1", "namespaces", namespace, "pods", name, "status"]:
            return await memory.patch_pod_status(namespace, name, body)
        case "DELETE", ["api", "v1", "namespaces", namespace, "pods", name]:
            assert body["gracePeriodSeconds"] == 0
            await memory.delete_pod(namespace, name, body["preconditions"]["uid"])
            return {}
        case "POST", ["apis", "coordination.k8s.io", "v1", "namespaces", "kube-node-lease", "leases"]:
            await memory.renew_lease(body["metadata"]["name"], body["spec"]["renewTime"], 40)
            return body
        case "PATCH", ["apis", "coordination.k8s.io", "v1", "namespaces", "kube-node-lease", "leases", name]:
            if name not in memory.leases:
                raise NotFoundError(f"lease {name!r} does not exist")
            return body
        case _:
            raise NotFoundError(f"{request.method} {request.path}")


async def test_a_pod_lives_and_dies_over_http() -> None:
    memory = MemoryNodeApi()
    requests: list[tuple[str, str, str]] = []
    with tempfile.TemporaryDirectory(prefix="kubelet-") as root:
        settings = KubeletSettings(node_name=NODE, root_dir=Path(root), termination_s=0.0)
        async with (
            serving(over_http(memory, requests)) as url,
            HttpNodeApi(url) as api,
            Kubelet(settings, api) as kubelet,
        ):
            await kubelet.wait_ready()
            await memory.add_pod(pod("a", container("main", None)), node=NODE)
            await memory.wait_for_pod("default", "a", "Running")
            await memory.request_deletion("default", "a")
            await memory.wait_for_pod("default", "a", None)
            assert memory.nodes[NODE]["status"]["capacity"]["cpu"] == "64"
            await memory.wait_until(lambda: NODE in memory.leases, "the lease is there")
            await kubelet.stop()
            await memory.set_down(True)

    patches = {(path, kind) for method, path, kind in requests if method == "PATCH"}
    assert (f"/api/v1/nodes/{NODE}/status", "application/merge-patch+json") in patches
    assert ("/api/v1/namespaces/default/pods/a/status", "application/merge-patch+json") in patches


@pytest.mark.parametrize(
    ("status", "family"),
    [
        (401, ForbiddenError),
        (403, ForbiddenError),
        (404, NotFoundError),
        (409, ConflictError),
        (410, GoneError),
        (429, RetryableError),
        (500, RetryableError),
        (503, RetryableError),
    ],
)
async def test_every_status_is_an_error_of_its_family(status: int, family: type[GcushareError]) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": "no"}, status=status)

    async with serving(refuse) as url, HttpNodeApi(url) as api:
        with pytest.raises(family, match=f"answered {status}") as caught:
            await api.get_node(NODE)
        assert type(caught.value) is family
        with pytest.raises(family):
            await anext(aiter(api.watch_pods(NODE, "1")))


async def test_a_server_that_is_away_is_retryable() -> None:
    async with HttpNodeApi("http://127.0.0.1:9") as api:
        with pytest.raises(RetryableError, match="GET /api/v1/nodes/node-1 failed"):
            await api.get_node(NODE)


@pytest.mark.parametrize(
    ("line", "family"),
    [
        pytest.param(b'{"type":"ERROR","object":{"code":410,"message":"too old"}}\n', GoneError, id="gone"),
        pytest.param(b'{"type":"ERROR","object":{"code":500}}\n', RetryableError, id="failed"),
        pytest.param(b'{"type":"ADDED","obj', RetryableError, id="cut in a line"),
    ],
)
async def test_a_watch_that_breaks_says_how(line: bytes, family: type[GcushareError]) -> None:
    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(line)
        return response

    async with serving(stream) as url, HttpNodeApi(url) as api:
        with pytest.raises(family):
            await anext(aiter(api.watch_pods(NODE, "1")))


async def test_the_token_travels_as_a_bearer() -> None:
    seen: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def note(request: web.Request) -> web.StreamResponse:
        seen.set_result(request.headers["Authorization"])
        return web.json_response({"metadata": {"name": NODE}})

    async with serving(note) as url, HttpNodeApi(url, token="secret") as api:
        await api.get_node(NODE)
    assert await seen == "Bearer secret"
