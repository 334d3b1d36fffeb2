"""The node's API port over HTTP, against any Kubernetes API server."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self

import aiohttp

from gcushare.core.errors import ConflictError, ForbiddenError, GcushareError, NotFoundError, RetryableError
from gcushare_playground.kubelet.api import GoneError, JsonObject, PodEvent, PodList

logger = logging.getLogger(__name__)

_MERGE_PATCH = "application/merge-patch+json"
_REQUEST_TIMEOUT_S = 15.0
_WATCH_SECONDS = 300
"""The server ends a watch after this long; the pod source then continues from the last version."""
_MAX_LINE_BYTES = 8 * 1024 * 1024
"""A watch event of one pod stays far below the API server's own limit of 3 MiB for an object."""
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class HttpNodeApi:
    """Speaks to ``server`` (a URL); with a bearer token or a TLS context where it needs them."""

    def __init__(self, server: str, *, token: str | None = None, tls: ssl.SSLContext | None = None) -> None:
        headers = {"User-Agent": "gcushare-playground-kubelet", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._server = server.rstrip("/")
        self._headers = headers
        self._tls: ssl.SSLContext | bool = True if tls is None else tls
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=_REQUEST_TIMEOUT_S)
        connector = aiohttp.TCPConnector(ssl=self._tls)
        self._session = aiohttp.ClientSession(
            headers=self._headers, timeout=timeout, connector=connector, read_bufsize=_MAX_LINE_BYTES
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def list_pods(self, node: str) -> PodList:
        answer = await self._call("GET", "/api/v1/pods", params={"fieldSelector": f"spec.nodeName={node}"})
        return PodList(tuple(answer.get("items") or ()), answer["metadata"].get("resourceVersion", ""))

    async def watch_pods(self, node: str, resource_version: str) -> AsyncIterator[PodEvent]:
        params = {
            "fieldSelector": f"spec.nodeName={node}",
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_REQUEST_TIMEOUT_S, sock_read=_WATCH_SECONDS + 30)
        try:
            async with self._open_session().get(
                f"{self._server}/api/v1/pods", params=params, timeout=timeout
            ) as response:
                await _raise_for_status(response, "GET", "/api/v1/pods?watch=true")
                async for line in response.content:
                    yield _parse_event(line)
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise RetryableError(f"watch of pods on node {node!r} broke: {error!r}") from error

    async def get_node(self, name: str) -> JsonObject:
        return await self._call("GET", f"/api/v1/nodes/{name}")

    async def create_node(self, node: JsonObject) -> JsonObject:
        return await self._call("POST", "/api/v1/nodes", body=node)

    async def patch_node_status(self, name: str, patch: JsonObject) -> JsonObject:
        return await self._call("PATCH", f"/api/v1/nodes/{name}/status", body=patch)

    async def patch_pod_status(self, namespace: str, name: str, patch: JsonObject) -> JsonObject:
        return await self._call("PATCH", f"/api/v1/namespaces/{namespace}/pods/{name}/status", body=patch)

    async def delete_pod(self, namespace: str, name: str, uid: str) -> None:
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": uid},
        }
        await self._call("DELETE", f"/api/v1/namespaces/{namespace}/pods/{name}", body=options)

    async def get_claim(self, namespace: str, name: str) -> JsonObject:
        return await self._call("GET", f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{name}")

    async def create_event(self, namespace: str, event: JsonObject) -> None:
        await self._call("POST", f"/api/v1/namespaces/{namespace}/events", body=event)

    async def renew_lease(self, name: str, renew_time: str, duration_s: int) -> None:
        spec = {"holderIdentity": name, "leaseDurationSeconds": duration_s, "renewTime": renew_time}
        try:
            await self._call("PATCH", f"{_LEASES}/{name}", body={"spec": spec})
        except NotFoundError:
            lease = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": name, "namespace": "kube-node-lease"},
                "spec": spec,
            }
            await self._call("POST", _LEASES, body=lease)

    async def _call(
        self, method: str, path: str, *, params: Mapping[str, str] | None = None, body: JsonObject | None = None
    ) -> JsonObject:
        headers = {"Content-Type": _MERGE_PATCH if method == "PATCH" else "application/json"} if body else {}
        try:
            async with self._open_session().request(
                method, f"{self._server}{path}", params=params, data=json.dumps(body) if body else None, headers=headers
            ) as response:
                await _raise_for_status(response, method, path)
                answer: JsonObject = await response.json(content_type=None)
                return answer
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise RetryableError(f"{method} {path} failed: {error!r}") from error

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("HttpNodeApi is used outside its async with block")
        return self._session


async def _raise_for_status(response: aiohttp.ClientResponse, method: str, path: str) -> None:
    if response.status < 300:
        return
    text = (await response.text())[:500]
    raise _error_of(response.status, f"{method} {path} answered {response.status}: {text!r}")


def _error_of(code: int, message: str) -> GcushareError:
    match code:
        case 401 | 403:
            return ForbiddenError(message)
        case 404:
            return NotFoundError(message)
        case 409:
            return ConflictError(message)
        case 410:
            return GoneError(message)
        case _:
            return RetryableError(message)


def _parse_event(line: bytes) -> PodEvent:
    raw: dict[str, Any] = json.loads(line)
    thing: JsonObject = raw["object"]
    if raw["type"] == "ERROR":
        raise _error_of(int(thing.get("code", 500)), f"watch of pods ended: {thing.get('message', '')!r}")
    return PodEvent(raw["type"], thing, thing["metadata"]["resourceVersion"])
