"""``pods/proxy`` and ``services/proxy``: a request handed on to a pod, as ``kubectl get --raw`` sends it.

Source: ``pkg/registry/core/{pod,service}/storage`` and ``k8s.io/apimachinery/pkg/util/proxy``. Unlike kube-apiserver
this server hands on to loopback addresses: everything in a playground listens there.
"""

from __future__ import annotations

import asyncio
import io
from dataclasses import dataclass
from urllib.parse import unquote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy

from gcushare_playground.apiserver import failures
from gcushare_playground.apiserver.failures import ApiFailure
from gcushare_playground.apiserver.objects import Key, dig
from gcushare_playground.apiserver.registry import Registry
from gcushare_playground.apiserver.requests import Target
from gcushare_playground.apiserver.resources import BY_NAME

_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=5.0, sock_read=60.0)
_PROXIED = ("pods", "services")
_OWN_HEADERS = frozenset(
    name.lower()
    for name in ("Authorization", "Connection", "Content-Length", "Host", "Keep-Alive", "TE", "Transfer-Encoding")
)
"""Headers of one connection only, and the caller's credentials, which are for this server."""


@dataclass(frozen=True, slots=True)
class Proxied:
    """What a proxy path names: ``scheme:name:port`` of a pod or Service, and the path behind it."""

    target: Target
    scheme: str
    name: str
    port: str
    path: str


def parse_proxied(path: str) -> Proxied | None:
    """Read ``/api/v1/namespaces/<ns>/<pods|services>/[scheme:]<name>[:<port>]/proxy[/...]``; None for other paths.

    Raises:
        ApiFailure: 400 for a name of another form.
    """
    parts = path.split("/", 8)
    if parts[:4] != ["", "api", "v1", "namespaces"] or len(parts) < 8 or parts[7] != "proxy":
        return None
    namespace, plural, word = parts[4], parts[5], unquote(parts[6])
    if plural not in _PROXIED:
        return None
    pieces = word.split(":")
    scheme, name, port = {1: ("", *pieces, ""), 2: ("", *pieces), 3: tuple(pieces)}.get(len(pieces), ("?", "", ""))
    if scheme not in ("", "http", "https") or not name:
        raise failures.bad_request(f"invalid {plural[:-1]} request {word!r}")
    target = Target(BY_NAME[plural], namespace, word, "proxy")
    return Proxied(target, scheme or "http", name, port, "/" + (parts[8] if len(parts) > 8 else ""))


class Proxy:
    """Hands authorized requests on."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    async def answer(self, proxied: Proxied, request: web.BaseRequest) -> web.StreamResponse:
        """Send the request on and stream its answer back.

        Raises:
            ApiFailure: 404 no such object, 503 no one behind it answers.
        """
        host = self._pod_address(proxied) if proxied.target.resource.plural == "pods" else self._endpoint(proxied)
        url = f"{proxied.scheme}://{host}{proxied.path}"
        body = await request.read()
        async with aiohttp.ClientSession(timeout=_TIMEOUT, auto_decompress=False) as session:
            try:
                answer = await session.request(
                    request.method,
                    url,
                    params=request.query,
                    headers=_passed_on(request.headers),
                    data=io.BytesIO(body) if body else None,
                    allow_redirects=False,
                    ssl=False,
                )
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise _unavailable(f"error trying to reach service: {error}") from error
            async with answer:
                return await _stream(request, answer)

    def _pod_address(self, proxied: Proxied) -> str:
        pod = self._registry.read(BY_NAME["pods"], Key(proxied.target.namespace or "", proxied.name)).obj
        address = dig(pod, "status", "podIP", default="")
        if not address:
            raise _unavailable(f'error trying to reach service: pod "{proxied.name}" has no address yet')
        return f"{address}:{proxied.port or 80}"

    def _endpoint(self, proxied: Proxied) -> str:
        key = Key(proxied.target.namespace or "", proxied.name)
        service = self._registry.read(BY_NAME["services"], key).obj
        ports = dig(service, "spec", "ports", default=[])
        wanted = proxied.port or (str(ports[0]["port"]) if len(ports) == 1 else "")
        port = next((p for p in ports if wanted in (str(p["port"]), p.get("name", ""))), None)
        found = self._registry.collection(BY_NAME["endpoints"]).get(key)
        for subset in dig(found.obj, "subsets", default=[]) if found is not None and port is not None else []:
            number = next((p["port"] for p in subset["ports"] if p.get("name") == (port or {}).get("name")), None)
            for address in subset.get("addresses") or []:
                if number is not None:
                    return f"{address['ip']}:{number}"
        raise _unavailable(f'no endpoints available for service "{proxied.target.name}"')


def _passed_on(headers: CIMultiDictProxy[str]) -> CIMultiDict[str]:
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in _OWN_HEADERS)


async def _stream(request: web.BaseRequest, answer: aiohttp.ClientResponse) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status, headers=_passed_on(answer.headers))
    await response.prepare(request)
    try:
        async for chunk in answer.content.iter_any():
            await response.write(chunk)
    except (aiohttp.ClientError, asyncio.IncompleteReadError, TimeoutError) as error:
        raise ConnectionError(f"what is behind the proxy broke off: {error}") from error
    await response.write_eof()
    return response


def _unavailable(message: str) -> ApiFailure:
    return ApiFailure(503, "ServiceUnavailable", message)
